"""One Triton program, evaluated: every statement of the kernel for one place of the grid, recording which elements it loads and stores."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from bottega.agents.answers.lint.forward_values import KnownTensor
from bottega.agents.answers.lint.index_arithmetic import (
    LANES,
    UNKNOWN,
    DoesNotFit,
    GivesUp,
    PointerValue,
    UnknownValue,
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
from bottega.compiler.callgraph import Shape

MOST_PROGRAMS = 512
"""The most that are evaluated one by one."""
MOST_STEPS = 20_000
"""Statements of kernels that are evaluated for one answer."""
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


@dataclass
class Reach:
    """Of one tensor, over all launches."""

    least: int = 0
    read: int = -1
    written: int = -1
    hidden: bool = False
    """Whether a store's place could not be reckoned."""
    unread: bool = False
    """Whether a load's could not."""


@dataclass
class Reached:
    """Of one answer, over all tensors and launches."""

    steps: int = MOST_STEPS
    apart: list[str] = field(default_factory=list)
    """Of kernels whose blocks do not fit together."""
    reached: dict[tuple[str, int], Reach] = field(default_factory=dict)
    tensors: dict[tuple[str, int], KnownTensor] = field(default_factory=dict)
    where: dict[tuple[str, int], str] = field(default_factory=dict)
    """The kernel that used the tensor last."""

    def add(self, tensor: KnownTensor, kernel: str) -> None:
        key = tensor.name, prod(tensor.shape)
        self.reached.setdefault(key, Reach())
        self.tensors.setdefault(key, tensor)
        self.where[key] = kernel


def programs_of(kernel: ast.FunctionDef, grid: Shape) -> Iterator[Shape]:
    """Those at the corners and a few between; all, where programs take turns along a loop and any may have the last."""
    takes_turns = any(
        isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.args[0]) != "0"
        for node in ast.walk(kernel)
    )
    if takes_turns and prod(grid) > MOST_PROGRAMS:
        raise GivesUp
    axes = [range(size) if takes_turns else sorted({0, size - 1, size // 2, size // 3}) for size in grid]
    return itertools.product(*axes)


@dataclass
class ProgramRun:
    answer: Reached
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
                return UnknownValue(shape_of(place))
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
                return UnknownValue(sizes)
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
        pointer = place if isinstance(place, PointerValue) else None
        if pointer is None or not pointer.tensor.lies_whole:
            if isinstance(place, UnknownValue):
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


def _is_reduction(block: Any, named: dict[str | None, Any]) -> bool:
    """Not the greater of two sizes, nor a result that is two."""
    return type(block) is not int and "return_indices" not in named


def _sizes(value: Any) -> str:
    return "x".join(map(str, shape_of(value) or ())) or "one"
