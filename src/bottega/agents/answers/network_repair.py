"""Layers and inputs that a network's answer leaves out.

Such an answer is always the same but for the kinds of its layers and the names of its inputs (see `compiler.network_rule`), so what is missing is
certain.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

from bottega.agents.answers.context import AnswerContext
from bottega.compiler.link import names_kept
from bottega.compiler.network_rule import graph_methods
from bottega.compiler.source.text import compiles, model_class, parsed

EXCHANGED = ("Conv2d", "Conv1d", "Conv3d", "ConvTranspose2d", "Linear", "BatchNorm2d", "GroupNorm")
"""Kinds of layers that the kernel library has. Where a kernel of ours does not pay, they go to the library by themselves."""
_LOOP = re.compile(r"(?<=for layer in self\.)\w+(?:\(\))?(?=:\n +if type\(layer\) is nn\.)")
_SWAP = re.compile(r"^( +)(?:el)?if type\(layer\) is nn\.(\w+):\n\1 {4}layer\.__class__ = \w+$(?!\n\1 )", re.MULTILINE)


def complete_network(source: str, context: AnswerContext) -> str:
    """The answer with an exchange for every kind of layer of the task that the library has, and every input in its CUDA graph.
    Answers of another form are returned unchanged."""
    swaps = list(_SWAP.finditer(source)) if context.follows_callgraph else []
    if not swaps:
        return source
    task_source = context.task_source
    made = _with_inputs(_LOOP.sub("modules()", _with_layers(source, task_source, swaps)), task_source)
    return made if compiles(made) else source


def _with_layers(source: str, task_source: str, swaps: Sequence[re.Match[str]]) -> str:
    last, own = swaps[-1], names_kept(task_source)
    indent = last[1]
    missing = [
        kind
        for kind in EXCHANGED
        if own is not None
        and kind not in own
        and re.search(rf"\bnn\.{kind}\(", task_source)
        and not re.search(rf"\bis nn\.{kind}\b|\bclass {kind}\b|\b{kind} =", source)
    ]
    lines = [f"\n{indent}elif type(layer) is nn.{kind}:\n{indent}    layer.__class__ = {kind}" for kind in missing]
    return source[: last.end()] + "".join(lines) + source[last.end() :]


def _with_inputs(source: str, task_source: str) -> str:
    """Where the graph holds fewer inputs than `forward` takes, and is otherwise written as always, it is made to hold all of them."""
    model = model_class(parsed(source))
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)} if model else {}
    if not {"capture", "forward"} <= methods.keys():
        return source
    inputs = [each.arg for each in methods["forward"].args.args[1:]]
    held = [each for each in inputs if re.search(rf"\bself\.static_{each}\.copy_\({each}\)", source)]
    if not held or held == inputs or _count_of_inputs(task_source) != len(inputs):
        return source
    there = [ast.get_source_segment(source, methods[name]) or "" for name in ("capture", "forward")]
    for returns in ("tensor", "tuple", "list"):
        if _graph(held, inputs, returns) == there:
            for old, new in zip(there, _graph(inputs, inputs, returns)):
                source = source.replace(old, new, 1)
    return source


def _graph(held: Sequence[str], inputs: Sequence[str], returns: str) -> list[str]:
    """`capture` and `forward` as they stand in a class: both take all inputs, and some of them are held."""
    capture, lines = graph_methods("run", held, returns)
    some, names = ", ".join(held), ", ".join(inputs)
    forward = "\n".join((f"def forward(self, {names}):", *(f"    {line}" for line in lines)))
    texts = (
        capture.replace(f"capture(self, {some})", f"capture(self, {names})", 1),
        forward.replace(f"self.capture({some})", f"self.capture({names})"),
    )
    return [textwrap.indent(text, "    ").lstrip() for text in texts]


def _count_of_inputs(task_source: str) -> int | None:
    """How many a task gives, where its list shows that; None where one of them is a number, or they are made some other way."""
    tree = parsed(task_source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"] if tree else []
    match functions[-1].body[-1] if functions else None:
        case ast.Return(value=ast.List(elts=given)) if all(isinstance(each, ast.Call | ast.Name) for each in given):
            return len(given)
    return None
