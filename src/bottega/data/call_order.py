"""An answer in the order of the call graph: `forward` first, with every call in its place, and in a kernel each call above its lines.

    class ModelNew(Model):
        def forward(self, x):
            t1 = conv2d(x, self.conv.weight, padding=1)
            # t2 = tanh(t1)
            # t3 = add(x, t2)
            t3 = torch.empty((8, 16, 32, 32), device=x.device, dtype=x.dtype)
            t3_kernel[(triton.cdiv(n, 1024),)](t1, x, t3, n, BLOCK=1024)
            return t3

    @triton.jit
    def t3_kernel(t1_ptr, x_ptr, t3_ptr, n, BLOCK: tl.constexpr):
        …
        # t2 = tanh(t1)
        t2 = libdevice.tanh(t1)

A small model that writes a kernel's parameters before it has thought of the kernel forgets some. Here it has copied the calls by then, and
each line that it must translate stands right above its translation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from bottega.compiler.callgraph import SAME_VALUES, Call, CallGraph, results_in

IMPORTS = ("import torch", "import triton", "import triton.language as tl", "from triton.language.extra import libdevice")
"""Always the same: what is needed is not known before the rest is written."""
_SHORT = "import torch.nn.functional as F"
_ASSIGNED = re.compile(r"^(\s+)(t\d+(?:_\d+)?) = (?!tl\.load)")
_TAKEN = re.compile(r"^(\s+)(t\d+(?:_\d+)?) = tl\.load\((\w+)_ptr")
"""A part of a tensor, under the name that the call graph has for it."""
_REDUCED = re.compile(r"^(\s+)(\w+) (?:= .*tl\.(?:sum|max|min|reduce)\(|\+= )")
_COMMENT = re.compile(r"^\s*# (?=t\d)")
_HELPING = re.compile(r"^\s+v\d+(?:_\d+)? = ")
"""A value on the way to a call's."""
_STORED = re.compile(r"^(\s+)tl\.store\(")
_WHOLE = frozenset(["sum", "max", "min", "amax", "amin", "prod"])
"""Operators that are one reduction and nothing more."""
_REDUCING = _WHOLE | frozenset(
    (
        *("mean", "softmax", "log_softmax", "layer_norm", "rms_norm", "norm", "linalg_norm", "normalize", "logsumexp"),
        *("std", "var", "any", "all", "cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cosine_similarity"),
        *("binary_cross_entropy_with_logits", "group_norm", "instance_norm", "batch_norm", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
        *("adaptive_avg_pool3d", "softmin", "linalg_vector_norm", "var_mean", "std_mean"),
    )
)  # fmt: skip
_DENSE = frozenset(("flip", "pad", "pixel_shuffle", "cat", "stack"))
"""Library functions that return a dense tensor."""
_VIEWS = frozenset(("unsqueeze", "squeeze", "transpose", "permute", "flatten"))
"""Library functions that need not."""


def with_call_comments(answer: str, callgraph: CallGraph) -> str:
    """The same program, its parts in the order in which a reader of the call graph would think of them. As it is where it has no such form."""
    calls = dict(callgraph.by_result)
    try:
        tree = ast.parse(answer)
    except SyntaxError:
        return answer
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in tree.body if not isinstance(node, ast.ClassDef | ast.FunctionDef)]
    plain = all(isinstance(node, ast.Import | ast.ImportFrom) for node in others)
    forwards = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    if not calls or len(classes) != 1 or len(forwards) != 1 or len(classes[0].body) != 1 or not plain:
        return answer
    lines = answer.split("\n")
    kernels = {node.name: _text(lines, node) for node in functions}
    alone = _alone(forwards[0])
    steps = {name: _steps(text, alone, calls) for name, text in kernels.items()}
    body = _forward(lines, classes[0], forwards[0], steps, calls)
    written = [_kernel(text, steps[name], calls) for name, text in kernels.items()]
    imports = [_text(lines, node) for node in others]
    head = "\n".join((*IMPORTS, *(line for line in imports if line not in (*IMPORTS, _SHORT))))
    if _SHORT in imports:
        body = re.sub(r"(?<![\w.])F\.", "torch.nn.functional.", body)
    return "\n\n\n".join((head, body, *written)) + ("\n" if answer.endswith("\n") else "")


def _text(lines: list[str], node: ast.stmt) -> str:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return "\n".join(lines[(decorators[0] if decorators else node).lineno - 1 : node.end_lineno])


def _made(kernel: str) -> set[str]:
    """Results that a kernel stores; one of two kernels that share a sum is known by its name."""
    stored = set(re.findall(r"tl\.store\((t\d+(?:_\d+)?)_ptr", kernel))
    named = re.match(r"@triton\.jit\ndef (t\d+(?:_\d+)?)_\w*kernel", kernel)
    return stored or ({named[1]} if named else set())


def _read(kernel: str) -> set[str]:
    return set(re.findall(r"tl\.load\((\w+)_ptr", kernel))


def _alone(forward: ast.FunctionDef) -> set[str]:
    """Results that `forward` itself computes, by a line of their own."""
    assigned = [
        node for node in forward.body if isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("torch.empty(")
    ]
    return {name.id for node in assigned for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _steps(kernel: str, alone: set[str], calls: dict[str, Call]) -> list[Call]:
    """The calls that a kernel computes; of one that ends what another began, from the reduction on."""
    found = _region(_made(kernel), _read(kernel) | alone, calls)
    if re.search(r"tl\.load\(\w+_parts_ptr", kernel):
        places = [place for place, step in enumerate(found) if step.operator in _REDUCING]
        return found[places[0] :] if places else found[-1:]
    return found


def _region(made: Iterable[str], read: set[str], calls: dict[str, Call]) -> list[Call]:
    """The calls between what a kernel reads and what it makes, in the call graph's order."""
    wanted, pending = set(), list(made)
    while pending:
        name = pending.pop()
        if name in wanted or name not in calls:
            continue
        wanted.add(name)
        pending += [one for one in calls[name].reads if one not in read]
    return list(dict.fromkeys(calls[name] for name in calls if name in wanted))


def _forward(
    lines: list[str], owner: ast.ClassDef, forward: ast.FunctionDef, steps: dict[str, list[Call]], calls: dict[str, Call]
) -> str:
    """The class with a comment for each call that a launch computes, before the lines that prepare the launch."""
    before: dict[int, list[Call]] = {}
    noted: set[Call] = set()
    ready: int | None = None
    for statement in forward.body:
        call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        launched = (
            call.func.value.id
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name)
            else ""
        )
        if launched in steps:
            fresh = [step for step in steps[launched] if step not in noted]
            before.setdefault(ready or statement.lineno, []).extend(fresh)
            noted.update(fresh)
            ready = None
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.value).startswith("torch.empty("):
            ready = ready or statement.lineno
        elif not (isinstance(statement, ast.Assign) and ready):
            ready = None
    said = _as_the_graph_says(forward, calls)
    shown: list[str] = []
    for number in range(owner.lineno, (owner.end_lineno or owner.lineno) + 1):
        line = said.get(number, lines[number - 1])
        indent = line[: len(line) - len(line.lstrip())]
        shown += [f"{indent}# {step.line}" for step in before.get(number, ())]
        shown.append(line)
    return "\n".join(shown)


def _as_the_graph_says(forward: ast.FunctionDef, calls: dict[str, Call]) -> dict[int, str]:
    """Lines that call torch, by number, in the call graph's own words where the kernel library has them and every operand is there."""
    there = {argument.arg for argument in forward.args.args}
    found: dict[int, str] = {}
    for node in forward.body:
        if not isinstance(node, ast.Assign):
            continue
        names = {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        call = calls.get(min(names)) if len(names) == 1 else None
        shelved = _DENSE if "contiguous()" in ast.unparse(node.value) else _DENSE | _VIEWS
        if call and node.lineno == node.end_lineno and there.issuperset(call.reads) and call.operator in shelved:
            found[node.lineno] = " " * node.col_offset + call.line
        there |= names
    return found


def _kernel(text: str, steps: list[Call], calls: dict[str, Call]) -> str:
    """A kernel with each call above the lines that compute it. A reduction that is a call's result gets its name."""
    left = list(steps)
    shown: list[str] = []
    held: list[str] = []
    names: dict[str, str] = {}
    underway = ""

    def note(indent: str, noted: list[Call]) -> None:
        shown.extend(f"{indent}# {step.line}" for step in noted)
        left[:] = [step for step in left if step not in noted]

    for line in text.split("\n"):
        if _HELPING.match(line):
            held.append(line)
            continue
        taken = _TAKEN.match(line)
        cut = taken if taken and taken[2] != taken[3] and not taken[2].startswith(f"{taken[3]}_") else None
        if (match := _ASSIGNED.match(line) or cut) and calls.get(match[2]) in left:
            own = left.index(calls[match[2]])
            note(match[1], [step for step in left[: own + 1] if step == left[own] or step.operator not in _REDUCING])
        elif underway and line.lstrip().startswith(f"{underway} = "):
            underway = ""
        elif (match := _REDUCED.match(line)) and not underway:
            step = next((step for step in left if step.operator in _REDUCING and not _waits(step, left)), None)
            if step is not None:
                note(match[1], [one for one in left[: left.index(step)] if one.operator in SAME_VALUES] + [step])
                result = step.names[0]
                underway = result if re.search(rf"^\s+{result} = ", text, re.MULTILINE) else ""
                if step.operator in _WHOLE and not underway and "_parts_ptr" not in text and f"{match[2]} += " not in text:
                    names.setdefault(match[2], result)
        elif match := _STORED.match(line):
            note(match[1], list(left))
        shown += [*held, line]
        held = []
    whole = "\n".join(shown)
    for name, result in names.items():
        whole = re.sub(rf"\b{name}\b", result, whole)
    return _renamed(whole)


def _renamed(kernel: str) -> str:
    """With a line for every call that gives what it is given, and its name from there on: `t3 = t2` under `# t3 = flatten(t2, 1)`."""
    shown: list[str] = []
    same: dict[str, str] = {}
    swap: dict[str, str] = {}
    there: dict[str, int] = {}
    """Names that have a value by now, with how deep they stand: a loop's are gone after it."""
    assigned = set(re.findall(r"^\s+(\w+) = ", kernel, re.MULTILINE))
    lines = kernel.split("\n")
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if line.strip():
            there = {name: deep for name, deep in there.items() if deep <= depth}
            same = {name: root for name, root in same.items() if name in there}
            swap = {root: name for root, name in swap.items() if name in there}
        if not (noted := _COMMENT.match(line)):
            shown.append(_swapped(line, swap))
            if match := re.match(r"\s+(\w+) = ", line):
                there[match[1]] = depth
                swap.pop(match[1], None)  # computed anew, in a loop: the other name stands for what it was before
                same = {name: root for name, root in same.items() if root != match[1]}
            continue
        shown.append(line)
        result, _, call = line[noted.end() :].partition(" = ")
        swap = {same[name]: name for name in results_in(call) if name in same and same[name] not in results_in(call)}
        operator, _, given = call.partition("(")
        first = given.split(",")[0].rstrip(")")
        after = lines[number + 1] if number + 1 < len(lines) else ""
        bare = bool(after) and (_COMMENT.match(after) or not after.lstrip().startswith(f"{result} = "))
        if operator in SAME_VALUES and bare and first in there and result not in assigned:
            shown.append(f"{' ' * depth}{result} = {first}")
            same[result], there[result] = same.get(first, first), depth
            swap = {}
    return "\n".join(shown)


def _swapped(line: str, swap: dict[str, str]) -> str:
    head, sign, rest = line.partition(" = ")
    if "tl.load(" in line or not sign:
        sign, rest = ("", "") if "tl.load(" in line else (sign, rest)
        if not sign:
            return line if "tl.load(" in line or "tl.store(" in line else _words(line, swap)
    return f"{head}{sign}{_words(rest, swap)}"


def _words(text: str, swap: dict[str, str]) -> str:
    for old, new in swap.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def _waits(step: Call, left: list[Call]) -> bool:
    """Whether it needs the result of another call that has no comment yet, views and the like apart."""
    before = [other for other in left if other != step and set(step.reads) & set(other.names)]
    return any(other.operator not in SAME_VALUES or _waits(other, left) for other in before)
