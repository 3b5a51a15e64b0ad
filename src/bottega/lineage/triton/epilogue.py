"""Epilogue fusion: functions of a kernel's result that are applied before it is stored, or by a second kernel over the stored result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from bottega.lineage.rule import Technique, conditions
from bottega.lineage.triton.rewriting import Change, triton_rule
from bottega.lineage.triton.text import KernelLaunch, Node, TritonText, substituted, tl_name

TAIL = """@triton.jit
def {name}(values, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    {value} = tl.load(values + places, mask=inside, other=0.0)
    {lines}
    tl.store(values + places, {value}, mask=inside)"""
BLOCK = 1024


@dataclass(frozen=True)
class _Stored:
    """The last store of a kernel, and the statements before it that only change what is stored."""

    store: ast.Expr
    call: ast.Call
    value: str
    lines: tuple[ast.Assign, ...]
    last: ast.expr | None
    """A function of the value inside the store itself."""
    pointer: str
    """The kernel's argument that it writes to."""


def _is_store(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and tl_name(node.value.func) == "store"


def _stored(found: TritonText, function: ast.FunctionDef) -> _Stored | None:
    stores = [node for node in function.body if _is_store(node)]
    if len(stores) != 1 or function.body[-1] is not stores[0]:
        return None
    store = stores[0]
    assert isinstance(store, ast.Expr)
    call = store.value
    assert isinstance(call, ast.Call)
    arguments = [each.arg for each in function.args.args]
    pointer = next((node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name) and node.id in arguments), "")
    free = {"tl", *found.kernels}
    names = {node.id for node in ast.walk(call.args[1]) if isinstance(node, ast.Name)} - free
    if not pointer or len(names) != 1:
        return None
    value = names.pop()
    lines: list[ast.Assign] = []
    for node in reversed(function.body[:-1]):
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - free
        if not isinstance(node, ast.Assign) or used != {value} or ast.unparse(node.targets[0]) != value:
            break
        if not any(isinstance(each, ast.Name) and each.id == value for each in ast.walk(node.value)):
            break
        lines.insert(0, node)
    last = None if isinstance(call.args[1], ast.Name) else call.args[1]
    return _Stored(store, call, value, tuple(lines), last, pointer)


def _argument(launch: KernelLaunch, function: ast.FunctionDef, name: str) -> ast.expr | None:
    place = [each.arg for each in function.args.args].index(name)
    return launch.call.args[place] if place < len(launch.call.args) else None


def _statement_of(found: TritonText, call: ast.Call) -> ast.Expr | None:
    return next((node for node in found.host if isinstance(node, ast.Expr) and node.value is call), None)


def undo_epilogue(found: TritonText) -> Iterator[Change]:
    for launch in found.launches:
        function = found.kernels[launch.kernel]
        stored, statement = _stored(found, function), _statement_of(found, launch.call)
        if stored is None or statement is None or not (stored.lines or stored.last):
            continue
        output = _argument(launch, function, stored.pointer)
        if output is None or function.name.endswith("_tail"):
            continue
        lines = [ast.unparse(line) for line in stored.lines]
        lines += [f"{stored.value} = {ast.unparse(stored.last)}"] if stored.last is not None else []
        name = f"{function.name}_tail"
        tail = TAIL.format(name=name, value=stored.value, lines="\n    ".join(lines))
        plain = ast.unparse(
            ast.Call(
                stored.call.func, [stored.call.args[0], ast.Name(stored.value), *stored.call.args[2:]], stored.call.keywords
            )
        )
        out = ast.unparse(output)
        launched = (
            f"{ast.unparse(statement)}\n{name}[(triton.cdiv({out}.numel(), {BLOCK}),)]({out}, {out}.numel(), BLOCK={BLOCK})"
        )
        changes: list[tuple[Node, str]] = [(line, "") for line in stored.lines]
        changes += [(stored.store, plain), (statement, launched), (found.tree, tail)]
        yield changes, function.name, name


def redo_epilogue(found: TritonText, value: str) -> Iterator[Change]:
    """A launch over the output of the launch before it, whose kernel loads, changes and stores every element in place."""
    for first, second in zip(found.launches, found.launches[1:]):
        tail, producer = found.kernels[second.kernel], found.kernels[first.kernel]
        after, before = _stored(found, tail), _stored(found, producer)
        statement = _statement_of(found, second.call)
        if after is None or before is None or before.last is not None or statement is None or tail is producer:
            continue
        target, written = _argument(second, tail, after.pointer), _argument(first, producer, before.pointer)
        if target is None or written is None or ast.unparse(target) != ast.unparse(written):
            continue
        new = ast.Name(before.value)
        lines = [f"{before.value} = {ast.unparse(substituted(line.value, after.value, new))}" for line in after.lines]
        if after.last is not None:
            lines.append(f"{before.value} = {ast.unparse(substituted(after.last, after.value, new))}")
        if not lines or not _loads_what_it_stores(tail, after):
            continue
        fused = "\n".join([*lines, ast.unparse(before.store)])
        whole = ast.FunctionDef(tail.name, tail.args, tail.body, tail.decorator_list)
        top = tail.decorator_list[0] if tail.decorator_list else tail
        whole.lineno, whole.col_offset, whole.end_lineno, whole.end_col_offset = (
            top.lineno, 0, tail.end_lineno, tail.end_col_offset,
        )  # fmt: skip
        yield [(before.store, fused), (statement, ""), (whole, "")], producer.name, value


def _loads_what_it_stores(tail: ast.FunctionDef, stored: _Stored) -> bool:
    loads = [
        node
        for node in tail.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and tl_name(node.value.func) == "load"
    ]
    return len(loads) == 1 and ast.dump(loads[0].value.args[0]) == ast.dump(stored.call.args[0])  # type: ignore[attr-defined]


EPILOGUE = triton_rule(
    Technique(
        "epilogue_fusion",
        "Apply the function of a result before it is stored, instead of in a second kernel over memory.",
        "A launch that only changes, element by element, what the launch before it wrote.",
        "Move the statements between the second kernel's load and store in front of the first kernel's store, and delete the second launch.",
        conditions(
            storage="The result is still in registers when it is stored.",
            pipeline="The function needs that element only; the sum is finished when it is stored, so not with split partial sums.",
        ),
        ("In a kernel that stores partial sums the function would be applied to each part.",),
        ("fusion", "epilogue", "launch"),
    ),
    undo_epilogue,
    redo_epilogue,
)  # fmt: skip
