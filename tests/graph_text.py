"""Call graphs for tests, written as text: the inverse of `CallGraph.text`. The package itself never reads that text."""

from __future__ import annotations

import re

from bottega.compiler.callgraph import Argument, Call, CallGraph, Input, NamedTensor, Shape

_RESULT = r"t\d\w*"
_SIZE = r"(?:scalar|\d+(?:x\d+)*)"
_HEAD = re.compile(r"forward\((.*)\)$")
_GIVEN = re.compile(rf"([A-Za-z_][\w.\[\]']*) ({_SIZE})(?: (\w+))?$")
_VALUE = re.compile(r"(\w+) = (.*)$")
_CALL = re.compile(rf"({_RESULT}(?:, {_RESULT})*) = (\w+)\((.*)\) ((?:\d|scalar).*)$")
_TYPE = re.compile(rf"({_SIZE})(?: (?!scalar)([a-z]\w*))?(?: |$)")
_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_][\w.]*(?:\[\d+\][\w.]*)*")


def graph(text: str) -> CallGraph | None:
    """None for an empty text."""
    if not text:
        return None
    names: list[str] = []
    given: list[NamedTensor] = []
    values: dict[str, str] = {}
    calls: list[Call] = []
    returned = ""
    for line in text.splitlines():
        if match := _HEAD.match(line):
            names = [name.strip() for name in match[1].split(",") if name.strip()]
        elif match := _CALL.match(line):
            results = match[1].split(", ")
            types = [(_shape(size), dtype or "float32") for size, dtype in _TYPE.findall(match[4])]
            made = zip(results, types if len(types) > 1 else types * len(results), strict=True)
            calls.append(Call(match[2], _arguments(match[3]), tuple(NamedTensor(name, *kind) for name, kind in made)))
        elif line.startswith("return "):
            returned = line.removeprefix("return ")
        elif match := _GIVEN.match(line):
            given.append(NamedTensor(match[1], _shape(match[2]), match[3] or "float32"))
        elif match := _VALUE.match(line):
            values[match[1]] = match[2]
        else:
            raise ValueError(f"no line of a call graph: {line}")
    inputs = tuple(_input(name, given, values) for name in names)
    held = {tensor.name for one in inputs for tensor in one.tensors}
    return CallGraph(inputs, tuple(tensor for tensor in given if tensor.name not in held), tuple(calls), returned)


def _input(name: str, given: list[NamedTensor], values: dict[str, str]) -> Input:
    plain = name.lstrip("*")
    tensors = tuple(one for one in given if re.match(rf"{plain}(?:\[|$)", one.name))
    return Input(plain, tensors, values.get(plain, ""), name.startswith("*"))


def _arguments(text: str) -> tuple[Argument, ...]:
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return tuple(_argument(piece.strip()) for piece in pieces if piece.strip())


def _argument(text: str) -> Argument:
    keyword, _, value = text.partition("=") if re.match(r"\w+=(?!=)", text) else ("", "", text)
    words = [word for word in _NAME.findall(value) if word not in ("None", "True", "False", "inf", "nan")]
    return Argument(value, keyword, tuple(words))


def _shape(size: str) -> Shape:
    return () if size == "scalar" else tuple(map(int, size.split("x")))
