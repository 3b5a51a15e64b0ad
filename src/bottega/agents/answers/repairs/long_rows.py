"""Rows that are too long for one program, taken in pieces.

A small model cannot reckon that 14 x 63 x 63 elements are too many for the registers of a program, and writes the kernel that holds a
whole row. Such a kernel is straight lines: loads and arithmetic along `column`, sums and extremes of them, and stores. The same lines in
loops over pieces of the row give the same result for any length. Both stand in the file, and the launch takes the one that fits the length
at hand. What is not of that very form, or might not be, is left alone.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bottega.compiler.callgraph_text import read_sketch, shapes_of
from bottega.compiler.library.index import FOR_KERNELS
from bottega.compiler.source.scopes import Scopes
from bottega.compiler.source.text import compiles, exchanged, parsed

LONGEST = 32768
"""Elements that one program holds: on an H200 rows of 32,000 were 5.5 times as fast as eager that way, and rows of 55,566 0.34 times."""
PIECE = 4096
SUFFIX = "_in_pieces"
DEEPEST = 12
"""Steps from a length to what it was made of."""
_LENGTH = "triton.next_power_of_2"
_OTHER_NUMBERS = re.compile(r" (?:u?int\d+|float64|complex\d+)\b")
_OTHER_TYPES = re.compile(r"tl\.(?:u?int\d+|float64)\b")
_STARTS = {"tl.sum": "tl.zeros(({block},), tl.float32)", "tl.max": 'tl.full(({block},), -float("inf"), tl.float32)',
           "tl.min": 'tl.full(({block},), float("inf"), tl.float32)'}  # fmt: skip
_JOINS = {"tl.sum": "{name} + {value}", "tl.max": "tl.maximum({name}, {value})", "tl.min": "tl.minimum({name}, {value})"}
_NAN_KEPT = {"nan_max": "tl.max", "nan_min": "tl.min"}
"""Functions of ours for `tl.reduce`, by what they find."""
_OF_TRITON = ("load", "store", "where", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sin", "cos", "sigmoid", "erf", "floor", "ceil",
              "maximum", "minimum", "fma", "clamp", "cast")  # fmt: skip
_ELEMENTWISE = frozenset(("float", *FOR_KERNELS, *(f"tl.{name}" for name in _OF_TRITON)))
"""Functions that give one value for each that they take."""
_BRANCHES = ast.IfExp | ast.BoolOp | ast.Lambda | ast.Subscript | ast.NamedExpr | ast.comprehension


def taken_in_pieces(source: str, sketch: str) -> str:
    """The file with a second kernel for each that holds a whole row, and launches that choose; itself where there is none, where it cannot be
    read, and where the sketch has other numbers than floating point. A row that the sketch shows to be short stays as it is."""
    try:
        return source if not sketch or _OTHER_NUMBERS.search(sketch) else _with_twins(source, sketch)
    except (RecursionError, MemoryError, ValueError):
        return source


def _with_twins(source: str, sketch: str) -> str:
    tree = parsed(source)
    if tree is None or SUFFIX in source:
        return source
    bound = Scopes(tree).bindings
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)]
    kernels = {node.name: node for node in found if bound[node.name] == 1}
    launches = [launch for node in ast.walk(tree) if (launch := _launch(node, kernels)) is not None]
    sizes = _Sizes(tree, sketch)
    edits: list[tuple[ast.expr, str]] = []
    added: dict[str, str] = {}
    for launch in launches:
        kernel, length = launch.kernel.id, ast.unparse(launch.length)
        known = sizes.of(launch.length, launch.kernel.lineno)
        if known is not None and known <= LONGEST:
            continue
        if kernel not in added:
            alike = all(each.block == launch.block for each in launches if each.kernel.id == kernel)
            added[kernel] = _in_pieces(kernels[kernel], launch.block) if alike else ""
        if added[kernel]:
            edits.append((launch.kernel, f"({kernel} if {length} <= {LONGEST} else {kernel}{SUFFIX})"))
            edits.append((launch.value, f"{_LENGTH}({length}) if {length} <= {LONGEST} else {PIECE}"))
    if not edits:
        return source
    lines = exchanged(source, edits).split("\n")
    for name in sorted(filter(added.get, added), key=lambda each: -kernels[each].lineno):
        lines.insert(kernels[name].end_lineno or 0, f"\n\n{added[name]}")
    whole = "\n".join(lines)
    return whole if compiles(whole) else source


@dataclass(frozen=True)
class _Launch:
    kernel: ast.Name
    block: str
    """The argument that is as long as the row."""
    value: ast.expr
    length: ast.expr


def _launch(node: ast.AST, kernels: Iterable[str]) -> _Launch | None:
    """`t6_kernel[(rows,)](…, BLOCK=triton.next_power_of_2(columns), …)`, with no tensor twice."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)):
        return None
    wide = [each for each in node.keywords if isinstance(each.value, ast.Call) and ast.unparse(each.value.func) == _LENGTH]
    if node.func.value.id not in kernels or len(wide) != 1 or not isinstance(wide[0].value, ast.Call) or not wide[0].arg:
        return None
    given, tensors = wide[0].value.args, [ast.unparse(each) for each in node.args if isinstance(each, ast.Name | ast.Attribute)]
    plain = len(given) == 1 and not any(isinstance(part, ast.Call) for part in ast.walk(given[0]))
    odd = any(isinstance(part, ast.NamedExpr | ast.Lambda | ast.Starred) for part in ast.walk(node))
    if not plain or odd or len(set(tensors)) < len(tensors) or not isinstance(node.func.slice, ast.Tuple):
        return None
    return _Launch(node.func.value, wide[0].arg, wide[0].value, given[0])


class _Sizes:
    """Lengths in `forward`, as far as the sketch tells them."""

    def __init__(self, tree: ast.Module, sketch: str) -> None:
        self.shapes = shapes_of(read_sketch(sketch))
        self.assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]

    def of(self, node: ast.expr, line: int, depth: int = 0) -> int | None:
        """The number that an expression on this line stands for; None where that is not known."""
        found = self._of(node, line, depth + 1) if depth < DEEPEST else None
        return found if found is not None and found < 2**62 else None

    def _of(self, node: ast.expr, line: int, depth: int) -> int | None:
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name):
                before = [each for each in self.assigned if each.lineno < line and _target(each) == name]
                return self.of(before[-1].value, before[-1].lineno, depth) if before else None
            case ast.Subscript(value=ast.Attribute(value=tensor, attr="shape"), slice=ast.Constant(value=int() as dim)):
                shape = self.shapes.get(ast.unparse(tensor))
                return shape[dim] if shape is not None and -len(shape) <= dim < len(shape) else None
            case ast.Call(func=ast.Attribute(value=tensor, attr="numel"), args=[]):
                shape = self.shapes.get(ast.unparse(tensor))
                return None if shape is None else math.prod(shape)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                one, other = self.of(left, line, depth), self.of(right, line, depth)
                return None if one is None or other is None else one * other
        return None


def _is_kernel(node: ast.FunctionDef) -> bool:
    return [ast.unparse(each) for each in node.decorator_list] == ["triton.jit"]


def _in_pieces(kernel: ast.FunctionDef, block: str) -> str:
    """Its text in loops; empty where it is not of the form."""
    try:
        body = _Straight(kernel, block).looped()
    except _OtherForm:
        return ""
    return f"@triton.jit\ndef {kernel.name}{SUFFIX}({ast.unparse(kernel.args)}):\n" + "\n".join(f"    {line}" for line in body)


class _OtherForm(Exception):
    """Not a kernel of straight lines over one row."""


class _Straight:
    """A kernel that holds a row, statement by statement."""

    def __init__(self, kernel: ast.FunctionDef, block: str) -> None:
        self.block = block
        self.statements = [statement for each in kernel.body for statement in _without_nested(each)]
        bound = [_target(each) for each in self.statements if isinstance(each, ast.Assign)]
        arguments = {each.arg for each in (*kernel.args.args, *kernel.args.kwonlyargs)}
        text = ast.unparse(kernel)
        if len(set(bound)) < len(bound) or arguments.intersection(bound) or re.search(r"\bstart\b", text):
            raise _OtherForm  # a name that means two things
        if _OTHER_TYPES.search(text):
            raise _OtherForm  # what is added up would be of another type
        self.column, self.mask, self.length = self._row(arguments)
        self._check_memory()

    def _row(self, arguments: set[str]) -> tuple[str, str, str]:
        """`column = tl.arange(0, BLOCK)` and `mask = column < columns`, of which nothing else says how far the row goes."""
        blocks = [each for each in self.statements if self.block in _reads(each)]
        column = _target(blocks[0]) if len(blocks) == 1 else ""
        if not column or ast.unparse(blocks[0]) != f"{column} = tl.arange(0, {self.block})":
            raise _OtherForm
        bounds = [each for each in self.statements if any(_compares(node, column) for node in ast.walk(each))]
        match bounds:
            case [
                ast.Assign(
                    value=ast.Compare(left=ast.Name(id=first), ops=[ast.Lt()], comparators=[ast.Name(id=length)])
                ) as mask
            ]:
                if first == column and length in arguments:
                    return column, _target(mask), length
        raise _OtherForm

    def _check_memory(self) -> None:
        """What is stored must not be loaded, since every loop loads again; and nothing may lie beyond the mask."""
        wide = {self.column}
        for each in self.statements:
            if isinstance(each, ast.Assign) and _reduction(each.value) is None and _reads(each.value) & wide:
                wide.add(_target(each))
        touched: dict[str, set[str]] = {"tl.load": set(), "tl.store": set()}
        for call in (node for each in self.statements for node in ast.walk(each) if isinstance(node, ast.Call)):
            if (name := ast.unparse(call.func)) in touched:
                place, masks = _reads(call.args[0]), [each.value for each in call.keywords if each.arg == "mask"]
                tensors = {each for each in place if each.endswith("_ptr")}
                touched[name] |= tensors
                if len(tensors) != 1 or (place & wide and not any(self.mask in _reads(each) for each in masks)):
                    raise _OtherForm
        if touched["tl.load"] & touched["tl.store"]:
            raise _OtherForm

    def looped(self) -> list[str]:
        along: list[ast.Assign] = []
        """What has a value for every element, so far."""
        wide = {self.column}
        lines: list[str] = []
        for each in self.statements:
            reads = _reads(each)
            if reads & wide and not all(map(_is_elementwise, _calls(each))):
                raise _OtherForm
            if isinstance(each, ast.Assign) and (found := _reduction(each.value)) is not None and reads & wide:
                if self.column in reads:
                    raise _OtherForm  # positions, which are whole numbers
                lines += self._reduced(_target(each), *found, along)
            elif isinstance(each, ast.Assign) and _target(each) == self.column:
                continue
            elif not reads & wide:
                lines.append(ast.unparse(each))
            elif isinstance(each, ast.Assign):
                wide.add(_target(each))
                along.append(each)
            else:
                lines += self._loop([*_slice(reads, along), each])
        return lines

    def _reduced(self, name: str, operator: str, value: ast.expr, along: Sequence[ast.Assign]) -> list[str]:
        kind = _NAN_KEPT.get(operator, operator)
        last = f"tl.reduce({name}, 0, {operator})" if operator in _NAN_KEPT else f"{operator}({name}, axis=0)"
        joined = _JOINS[kind].format(name=name, value=ast.unparse(value))
        if operator in _NAN_KEPT:
            joined = f"{joined[:-1]}, propagate_nan=tl.PropagateNan.ALL)"
        needed: list[ast.stmt] = list(_slice(_reads(value), along))
        start = f"{name} = {_STARTS[kind].format(block=self.block)}"
        return [start, *self._loop([*needed, ast.parse(f"{name} = {joined}").body[0]]), f"{name} = {last}"]

    def _loop(self, body: Sequence[ast.stmt]) -> list[str]:
        head = [
            f"for start in range(0, {self.length}, {self.block}):",
            f"    {self.column} = start + tl.arange(0, {self.block})",
        ]
        return [*head, *(f"    {ast.unparse(each)}" for each in body)]


def _without_nested(statement: ast.stmt) -> list[ast.stmt]:
    """An assignment to one name or a store, with reductions inside of it as assignments of their own."""
    if any(isinstance(node, _BRANCHES) for node in ast.walk(statement)):
        raise _OtherForm
    match statement:
        case ast.Expr(value=ast.Call(func=function)) if ast.unparse(function) == "tl.store":
            return [statement]
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            raise _OtherForm
    if _reduction(value) is not None:
        return [statement]
    found: list[ast.stmt] = []

    class Taken(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            if _reduction(node) is None:
                return self.generic_visit(node)
            found.append(ast.Assign([ast.Name(f"{name}_whole{len(found)}", ast.Store())], node, lineno=0))
            return ast.Name(_target(found[-1]), ast.Load())

    rest = Taken().visit(copy.deepcopy(value))
    return [*found, ast.Assign([ast.Name(name, ast.Store())], rest, lineno=0)]


def _reduction(value: ast.expr) -> tuple[str, ast.expr] | None:
    """The function and what it takes together, of `tl.sum(…, axis=0)` and `tl.reduce(…, 0, nan_max)`."""
    if not isinstance(value, ast.Call) or not value.args:
        return None
    called, options = ast.unparse(value.func), [ast.unparse(each) for each in value.keywords]
    if called in _STARTS and len(value.args) == 1 and options == ["axis=0"]:
        return called, value.args[0]
    words = [ast.unparse(each) for each in value.args[1:]]
    if called == "tl.reduce" and not options and len(words) == 2 and words[0] == "0" and words[1] in _NAN_KEPT:
        return words[1], value.args[0]
    return None


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """Its calls, but for a reduction of which it is all."""
    reduced = statement.value if isinstance(statement, ast.Assign) and _reduction(statement.value) is not None else None
    return [node for node in ast.walk(statement) if isinstance(node, ast.Call) and node is not reduced]


def _is_elementwise(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return (
        name in _ELEMENTWISE
        or name.startswith("libdevice.")
        or (isinstance(call.func, ast.Attribute) and call.func.attr == "to")
    )


def _compares(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Compare) and name in _reads(node)


def _slice(wanted: Iterable[str], along: Sequence[ast.Assign]) -> list[ast.Assign]:
    """The statements that these names need, in their order."""
    needed, found = set(wanted), []
    for each in reversed(along):
        if _target(each) in needed:
            needed |= _reads(each.value)
            found.append(each)
    return found[::-1]


def _target(statement: ast.stmt) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else ""


def _reads(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
