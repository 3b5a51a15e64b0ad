"""Networks: what has several layers keeps its forward, gets its layers exchanged for ours, and is captured in one graph.

A chain of calls is read from its sketch. A network is read from its text, since its answer needs nothing of the calls: it is always the same
but for the kinds of its layers and the names of its inputs. What such an answer leaves out can therefore be put in.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Sequence

from bottega.compiler.callgraph_text import read_sketch
from bottega.compiler.link import names_kept
from bottega.compiler.source.text import compiles, parsed

LONGEST_CHAINS = {3: 9, 2: 12}
"""So many layers, at least, in more calls than that are a network. Of nine such blocks that rounds 11 and 12 wrote out as chains one was surely
faster on an H200, the others misread or held up by the host; of 24 networks whose layers were exchanged, 19."""
HOLD_LAYERS = ("multi_head_attention_forward(",)
"""Calls that are several layers in one. Of a transformer's layer with one, ten calls long, two of two were misread as chains."""
FEWEST_LAYERS = 2
"""With weights of their own: others cannot be exchanged."""
HEAVY = ("conv", "linear(", "matmul(", "mm(", "bmm(", "einsum(")
EXCHANGED = ("Conv2d", "Conv1d", "Conv3d", "ConvTranspose2d", "Linear", "BatchNorm2d", "GroupNorm")
"""Kinds of layers that the shelf has. Where a kernel of ours does not pay, they go to the library by themselves."""
_OWN_WEIGHTS = re.compile(r"(?:conv|linear\().*\bself\.[\w.\[\]]{1,200}\.weight\b")
_LOOP = re.compile(r"(?<=for layer in self\.)\w+(?:\(\))?(?=:\n +if type\(layer\) is nn\.)")
_SWAP = re.compile(r"^( +)(?:el)?if type\(layer\) is nn\.(\w+):\n\1 {4}layer\.__class__ = \w+$(?!\n\1 )", re.MULTILINE)


def is_network(calls: Collection[str]) -> bool:
    """By the calls of its sketch; none are too many to be told."""
    layers = sum(call.startswith(HEAVY) for call in calls)
    if not calls or any(call.startswith(HOLD_LAYERS) for call in calls):
        return True
    return any(layers >= fewest and len(calls) > longest for fewest, longest in LONGEST_CHAINS.items())


def is_read_as_text(sketch: str) -> bool:
    """Whether this is the sketch of a network whose layers can be exchanged."""
    calls = [call.text for call in read_sketch(sketch).calls]
    return bool(calls) and is_network(calls) and sum(bool(_OWN_WEIGHTS.match(call)) for call in calls) >= FEWEST_LAYERS


def graph_methods(name: str, inputs: Sequence[str], returns: str) -> tuple[str, list[str]]:
    """The method that captures the method `name`, and the lines of a `forward` that replays it; `returns` is tensor, tuple or list."""
    names = ", ".join(inputs)
    held = ", ".join(f"self.static_{each}" for each in inputs)
    clones = ", ".join(f"{each}.clone()" for each in inputs)
    capture = f"""def capture(self, {names}):
    {held} = {clones}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        self.{name}({held})
    torch.cuda.current_stream().wait_stream(side)
    self.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(self.graph):
        self.static_out = self.{name}({held})"""
    lines = ["if self.graph is None:", f"    self.capture({names})"]
    lines += [f"self.static_{each}.copy_({each})" for each in inputs]
    lines += ["self.graph.replay()"]
    copies = {"tensor": "self.static_out.clone()", "list": "[out.clone() for out in self.static_out]"}
    return capture, [*lines, f"return {copies.get(returns, 'tuple(out.clone() for out in self.static_out)')}"]


def made_whole(source: str, task_source: str) -> str:
    """A network's answer with every layer of every kind that ours can stand for, and with every input in its graph; any other answer as it is."""
    swaps = list(_SWAP.finditer(source))
    if not swaps:
        return source
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
    tree = parsed(source)
    model = (
        next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None) if tree else None
    )
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
