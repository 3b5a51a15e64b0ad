"""How far an answer's kernels reach: places that a tensor does not have, results that are not written to their end, inputs not read to theirs.

Nothing is run. The sizes stand in the sketch, the index arithmetic in the text: it is reckoned for programs at the corners of the grid and a few
between, over whole blocks. What cannot be reckoned (loaded numbers, a pointer that moves, a function of the answer's own) says nothing.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from bottega.agents.answers.lint.index_arithmetic import (
    LANES,
    UNKNOWN,
    DoesNotFit,
    GivesUp,
    Pointer,
    Unknown,
    are_numbers,
    binary,
    compared,
    covers,
    index_in,
    index_in_part,
    is_number,
    joined,
    of_numbers,
    reduced,
    shape_of,
    turned,
    unary,
    word_of,
)
from bottega.compiler.callgraph_text import Shape, Sketch, is_result, read_sketch
from bottega.compiler.source.text import parsed

_PROGRAMS = 512
"""The most that are reckoned one by one."""
_STEPS = 20_000
"""Statements of kernels that are reckoned for one answer."""
_WHOLE = frozenset(
    (
        "add", "sub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "relu", "sigmoid", "tanh", "silu", "gelu", "softplus", "softmax",
        "log_softmax", "sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "norm", "linalg_norm", "linalg_vector_norm", "logsumexp",
        "layer_norm", "rms_norm", "instance_norm", "group_norm", "batch_norm", "mv", "clamp", "mse_loss", "smooth_l1_loss", "kl_div",
    )
)  # fmt: skip
"""Operators that read to its end whatever they read."""
_ELEMENTWISE = frozenset(
    (
        "abs",
        "ceil",
        "clamp",
        "cos",
        "cumprod",
        "cumsum",
        "erf",
        "exp",
        "exp2",
        "floor",
        "fma",
        "log",
        "log2",
        "rsqrt",
        "sigmoid",
        "sin",
        "sqrt",
    )
)
"""Functions of Triton whose result has the shape of what they are given."""
_SLICES = frozenset(
    (
        "expand", "expand_as", "broadcast_to", "narrow", "chunk", "split", "tensor_split", "select", "unbind", "unfold", "as_strided", "diagonal",
        "repeat_interleave", "index_select",
    )
)  # fmt: skip
"""Methods whose result does not lie in memory as its size tells."""


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: Shape
    lies_whole: bool = True
    """Whether its elements fill its storage, in whatever order."""
    in_order: bool = True


@dataclass
class _Reach:
    """Of one tensor, over all launches."""

    least: int = 0
    read: int = -1
    written: int = -1
    hidden: bool = False
    """Whether a store's place could not be reckoned."""
    unread: bool = False
    """Whether a load's could not."""


@dataclass
class _Answer:
    kernels: dict[str, ast.FunctionDef]
    shapes: dict[str, Shape]
    read_whole: frozenset[str]
    """What the sketch reads to the end, and `forward` by kernels alone."""
    steps: int = _STEPS
    apart: list[str] = field(default_factory=list)
    """Of kernels whose blocks do not fit together."""
    reached: dict[tuple[str, int], _Reach] = field(default_factory=dict)
    tensors: dict[tuple[str, int], _Tensor] = field(default_factory=dict)
    where: dict[tuple[str, int], str] = field(default_factory=dict)


def reaches(source: str, sketch: str) -> tuple[str, ...]:
    """One sentence for each tensor that a kernel leaves or does not fill; nothing where the file or the sketch cannot be read."""
    tree = parsed(source)
    model = next((one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "ModelNew"), None) if tree else None
    methods = [node for node in model.body if isinstance(node, ast.FunctionDef)] if model else []
    if tree is None or len(methods) != 1 or methods[0].name != "forward":
        return ()
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
    read = read_sketch(sketch)
    shapes = dict(read.given) | {name: size for call in read.calls for name, size in zip(call.names, call.sizes)}
    answer = _Answer(kernels, shapes, _read_whole(read) - _read_otherwise(methods[0], kernels))
    try:
        with np.errstate(all="ignore"):
            _forward(methods[0], answer)
    except (GivesUp, RecursionError, ArithmeticError, ValueError, TypeError, IndexError, MemoryError):
        return ()
    return (*dict.fromkeys(answer.apart), *(() if answer.apart else _told(answer)))


def _told(answer: _Answer) -> Iterator[str]:
    for key, reach in answer.reached.items():
        tensor, elements = answer.tensors[key], prod(answer.tensors[key].shape)
        kernel = answer.where[key]
        if reach.least < 0:
            yield f"{kernel} reaches {-reach.least} places before {tensor.name}"
        if reach.read >= elements:
            yield f"{kernel} reads {tensor.name}, of {elements} elements, at place {reach.read}"
        if reach.written >= elements:
            yield f"{kernel} writes {tensor.name}, of {elements} elements, at place {reach.written}"
        elif 0 <= reach.written < elements - 1 and not reach.hidden:
            yield f"{kernel} writes {tensor.name}, of {elements} elements, up to place {reach.written} alone"
        if 0 <= reach.read < elements - 1 and not reach.unread and tensor.name in answer.read_whole:
            yield f"{kernel} reads {tensor.name}, of {elements} elements, up to place {reach.read} alone"


def _read_whole(sketch: Sketch) -> frozenset[str]:
    found: set[str] = set(sketch.given)
    for call in sketch.calls:
        found.update(call.names)
        if call.operator not in _WHOLE:
            found -= {*call.words, *re.findall(r"self\.[\w.]+", call.arguments)}
    return frozenset(found)


def _read_otherwise(forward: ast.FunctionDef, kernels: dict[str, ast.FunctionDef]) -> set[str]:
    """Tensors that something but kernels reads: places that are no part of another place nor of a launch."""
    found: set[str] = set()
    pending: list[ast.AST] = list(forward.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute | ast.Name):
            place = ast.unparse(node)
            found.add(place)
            if isinstance(node, ast.Attribute) and node.attr not in ("shape", "device", "dtype", "numel"):
                pending.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and ast.unparse(node.func.value) in kernels:
            continue
        elif not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            pending += ast.iter_child_nodes(node)
    return found


def _is_reduction(block: Any, named: dict[str | None, Any]) -> bool:
    """Not the greater of two sizes, nor a result that is two."""
    return type(block) is not int and "return_indices" not in named


def _sizes(value: Any) -> str:
    return "x".join(map(str, shape_of(value) or ())) or "one"


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).startswith("triton.jit") for one in node.decorator_list)


def _forward(forward: ast.FunctionDef, answer: _Answer) -> None:
    known: dict[str, Any] = {
        name: _Tensor(name, shape, in_order=False) for name, shape in answer.shapes.items() if not is_result(name)
    }
    for statement in forward.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            value = _host(statement.value, known)
            if isinstance(value, _Tensor):
                known[name] = replace(value, name=name)
            elif isinstance(value, Unknown) and is_result(name) and name in answer.shapes and _fills(statement.value, known):
                known[name] = _Tensor(name, answer.shapes[name], in_order=False)
            else:
                known[name] = value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _launches(statement.value, answer):
            _launch(statement.value, known, answer)
        elif isinstance(statement, ast.Return | ast.Expr):
            continue
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    known[node.id] = UNKNOWN
            if any(isinstance(node, ast.Call) and _launches(node, answer) for node in ast.walk(statement)):
                raise GivesUp


def _launches(call: ast.Call, answer: _Answer) -> bool:
    return (
        isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name) and call.func.value.id in answer.kernels
    )


def _fills(value: ast.expr, known: dict[str, Any]) -> bool:
    """Whether a result lies whole: made by a function, or a view of something that does."""
    if isinstance(value, ast.Call):
        function = value.func
        if isinstance(function, ast.Attribute):
            if function.attr in _SLICES:
                return False
            place = ast.unparse(function.value)
            tensor = known.get(place)
            return tensor.lies_whole if isinstance(tensor, _Tensor) else place in ("torch", "torch.nn.functional", "F")
        return isinstance(function, ast.Name)
    return False


def _host(node: ast.expr, known: dict[str, Any]) -> Any:
    """Numbers, tuples and tensors of `forward`."""
    place = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
    if place in known:
        return known[place]
    match node:
        case ast.Constant(value=int() | float() | bool()):
            return node.value
        case ast.Tuple():
            return tuple(_host(one, known) for one in node.elts)
        case ast.BinOp():
            return binary(node.op, _host(node.left, known), _host(node.right, known))
        case ast.UnaryOp(op=ast.USub()):
            value = _host(node.operand, known)
            return -value if isinstance(value, int | float) else UNKNOWN
        case ast.Attribute(attr="shape"):
            tensor = _host(node.value, known)
            return tensor.shape if isinstance(tensor, _Tensor) else UNKNOWN
        case ast.Subscript():
            sizes, at = _host(node.value, known), _host(node.slice, known)
            if isinstance(sizes, tuple) and isinstance(at, int):
                return sizes[at]
        case ast.Call():
            return _host_call(node, known)
    return UNKNOWN


def _host_call(node: ast.Call, known: dict[str, Any]) -> Any:
    word, given = word_of(node), [_host(one, known) for one in node.args]
    numbers = [one for one in given if type(one) is int]
    if isinstance(node.func, ast.Attribute):
        tensor = _host(node.func.value, known)
        if isinstance(tensor, _Tensor):
            if node.func.attr == "numel":
                return prod(tensor.shape)
            if node.func.attr in ("dim", "ndimension"):
                return len(tensor.shape)
            if node.func.attr == "size" and numbers:
                return tensor.shape[numbers[0]]
            if node.func.attr == "stride" and numbers and tensor.in_order:
                return prod(tensor.shape[numbers[0] % len(tensor.shape) + 1 :])
            return UNKNOWN
    if word in ("torch.empty", "torch.zeros") and given:
        sizes = given[0] if isinstance(given[0], tuple) else tuple(given)
        return _Tensor("", sizes) if sizes and all(type(size) is int for size in sizes) else UNKNOWN
    if word == "torch.empty_like" and isinstance(given[0], _Tensor):
        return replace(given[0], lies_whole=True)
    if len(numbers) < max(1, len(given)) or node.keywords:
        return UNKNOWN
    return of_numbers(word, numbers)


def _launch(call: ast.Call, known: dict[str, Any], answer: _Answer) -> None:
    assert isinstance(call.func, ast.Subscript)
    assert isinstance(call.func.value, ast.Name)
    kernel = answer.kernels[call.func.value.id]
    grid = _host(call.func.slice, known)
    grid = grid if isinstance(grid, tuple) else (grid,)
    if not all(type(size) is int and 0 < size < 2**31 for size in grid) or any(
        isinstance(one, ast.Starred) for one in call.args
    ):
        raise GivesUp
    parameters = [one.arg for one in kernel.args.args]
    given = dict(zip(parameters, (_host(one, known) for one in call.args)))
    given |= {word.arg: _host(word.value, known) for word in call.keywords if word.arg in parameters}
    seed: dict[str, Any] = {}
    for name in parameters:
        value = given.get(name, UNKNOWN)
        seed[name] = Pointer(value) if isinstance(value, _Tensor) else value
    for tensor in (one.tensor for one in seed.values() if isinstance(one, Pointer)):
        _keep(tensor, answer, kernel.name)
    try:
        for program in _programs(kernel, grid):
            _Program(answer, (*program, 0, 0)[:3], (*grid, 1, 1)[:3]).run(kernel.body, dict(seed))
    except DoesNotFit as blocks:
        answer.apart.append(f"{kernel.name} brings together {blocks}")


def _programs(kernel: ast.FunctionDef, grid: Shape) -> Iterator[Shape]:
    """Those at the corners and a few between; all, where programs take turns along a loop and any may have the last."""
    takes_turns = any(
        isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.args[0]) != "0"
        for node in ast.walk(kernel)
    )
    if takes_turns and prod(grid) > _PROGRAMS:
        raise GivesUp
    axes = [range(size) if takes_turns else sorted({0, size - 1, size // 2, size // 3}) for size in grid]
    return itertools.product(*axes)


def _keep(tensor: _Tensor, answer: _Answer, kernel: str) -> None:
    key = tensor.name, prod(tensor.shape)
    answer.reached.setdefault(key, _Reach())
    answer.tensors.setdefault(key, tensor)
    answer.where[key] = kernel


@dataclass
class _Program:
    answer: _Answer
    place: tuple[int, ...]
    grid: tuple[int, ...]

    def run(self, body: list[ast.stmt], known: dict[str, Any]) -> None:
        for statement in body:
            self.answer.steps -= 1
            if self.answer.steps < 0:
                raise GivesUp
            match statement:
                case ast.Assign(targets=[target]):
                    self._assign(target, self.value(statement.value, known), known)
                case ast.AugAssign(target=ast.Name(id=name)):
                    known[name] = joined(known.get(name, UNKNOWN), self.value(statement.value, known))
                case ast.Expr(value=ast.Call()):
                    self.value(statement.value, known)
                case ast.For(target=ast.Name(id=name), iter=ast.Call() as turns):
                    for number in self._turns(turns, known):
                        known[name] = number
                        self.run(statement.body, known)
                case ast.If():
                    self._branch(statement, known)
                case ast.Expr() | ast.Pass() | ast.Return():
                    pass
                case _:
                    raise GivesUp

    def _assign(self, target: ast.expr, value: Any, known: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            known[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts):
            for one, part in zip(target.elts, value):
                self._assign(one, part, known)
        else:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    known[node.id] = UNKNOWN

    def _turns(self, call: ast.Call, known: dict[str, Any]) -> list[Any]:
        """The first and the last number of a loop: between them lies all that it reaches."""
        bounds = [self.value(one, known) for one in call.args]
        if word_of(call).rpartition(".")[2] not in ("range", "static_range") or not all(type(one) is int for one in bounds):
            raise GivesUp
        turns = range(*bounds)
        return sorted({turns[0], turns[-1]}) if turns else []

    def _branch(self, statement: ast.If, known: dict[str, Any]) -> None:
        asked = self.value(statement.test, known)
        if not isinstance(asked, bool | int | np.bool_):
            raise GivesUp
        self.run(statement.body if asked else statement.orelse, known)

    def value(self, node: ast.expr, known: dict[str, Any]) -> Any:
        match node:
            case ast.Name():
                return known.get(node.id, UNKNOWN)
            case ast.Constant(value=int() | float() | bool() | None):
                return node.value
            case ast.Tuple():
                return tuple(self.value(one, known) for one in node.elts)
            case ast.BinOp():
                return binary(node.op, self.value(node.left, known), self.value(node.right, known))
            case ast.UnaryOp():
                return unary(node.op, self.value(node.operand, known))
            case ast.Compare(ops=[operator], comparators=[right]):
                return compared(operator, self.value(node.left, known), self.value(right, known))
            case ast.Subscript():
                return turned(self.value(node.value, known), node.slice)
            case ast.IfExp():
                asked = self.value(node.test, known)
                if isinstance(asked, bool | int | np.bool_):
                    return self.value(node.body if asked else node.orelse, known)
            case ast.Call():
                return self._call(node, known)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self.value(inner, known)
        return UNKNOWN

    def _call(self, node: ast.Call, known: dict[str, Any]) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return self.value(node.func.value, known)
        word = word_of(node).rpartition(".")[2]
        given = [self.value(one, known) for one in node.args]
        named = {one.arg: self.value(one.value, known) for one in node.keywords}
        match word, given:
            case (("load" | "store" | "atomic_add" | "atomic_max" | "atomic_min"), [place, *rest]):
                mask = named.get("mask", next(iter(rest[1:] if word != "load" else rest), None))
                for given_to in [mask] if word == "load" else [mask, *rest[:1]]:
                    if given_to is not None and not covers(place, given_to):
                        raise DoesNotFit(f"blocks of {_sizes(given_to)} at places of {_sizes(place)}")
                self._touch(place, mask, word)
                return Unknown(shape_of(place))
            case "program_id", [int(axis)]:
                return self.place[axis]
            case "num_programs", [int(axis)]:
                return self.grid[axis]
            case "arange", [int(start), int(end)] if 0 < end - start <= LANES:
                return np.arange(start, end, dtype=np.int64)
            case (("minimum" | "maximum"), [left, right]):
                if not are_numbers(left, right):
                    return joined(left, right)
                return (np.minimum if word == "minimum" else np.maximum)(left, right)
            case "where", [asked, left, right]:
                if not are_numbers(asked, left, right):
                    return joined(asked, left, right)
                return np.where(asked, left, right)
            case (("zeros" | "full"), [tuple(sizes), *_]) if all(type(size) is int for size in sizes):
                return Unknown(sizes)
            case (("sum" | "max" | "min" | "xor_sum" | "argmax" | "argmin" | "reduce"), [block, *rest]) if _is_reduction(
                block, named
            ):
                keeps = rest[1] if word == "sum" and len(rest) > 1 else False
                return reduced(block, named.get("axis", rest[0] if rest else None), named.get("keep_dims", keeps))
            case "index_in", [tuple(operand), tuple(whole), offsets] if is_number(offsets):
                return index_in(operand, whole, offsets)
            case "index_in_part", [tuple(whole), int(dim), int(start), tuple(part), offsets] if is_number(offsets):
                return index_in_part(whole, dim, start, part, offsets)
            case _ if given and not named and all(type(one) is int for one in given):
                return of_numbers(word, given)
            case _ if word in _ELEMENTWISE or word_of(node).startswith("libdevice."):
                return joined(*given)
        return UNKNOWN

    def _touch(self, place: Any, mask: Any, word: str) -> None:
        pointer = place if isinstance(place, Pointer) else None
        if pointer is None or not pointer.tensor.lies_whole:
            if isinstance(place, Unknown):
                for reach in self.answer.reached.values():
                    reach.hidden |= word != "load"
                    reach.unread |= word != "store"
            return
        reach = self.answer.reached[pointer.tensor.name, prod(pointer.tensor.shape)]
        if not are_numbers(pointer.offset, True if mask is None else mask):
            reach.hidden |= word != "load"
            reach.unread |= word != "store"
            return
        offset, kept = np.broadcast_arrays(np.asarray(pointer.offset), np.asarray(True if mask is None else mask))
        offset = offset[kept.astype(bool)]
        if not offset.size:
            return
        reach.least = min(reach.least, int(offset.min()))
        if word != "store":
            reach.read = max(reach.read, int(offset.max()))
        if word != "load":
            reach.written = max(reach.written, int(offset.max()))
