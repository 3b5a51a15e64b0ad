"""Search queries: weighted terms from a task's source and tags, or from plain words.

Operators that the task calls weigh most, its families next, other names and words least. Only what computes counts: how inputs are
drawn and weights set up tells nothing about the kernel. `LayerNorm`, `layer_norm` and "layer norm" must meet, and cards are written in
all three ways, so a name asks for itself in one piece and for its parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bottega.core.task import Task

OPERATOR, FAMILY, SAID, COMMON, LABEL, NAME = 3.0, 2.0, 2.0, 1.2, 1.0, 0.6

_PLUMBING = frozenset(
    """self super init forward torch nn functional model module tensor get inputs input init_inputs return def class import none true
    false the and for with from that this into are not def args kwargs float int bool list tuple dict str len range x y z out size
    shape view reshape contiguous randn rand zeros ones empty parameter dim dims batch device dtype cuda cpu gpu print a b of in to is
    it its on as by an or be has have do does no per over only each every all any one two both then than when where which while
    after before between without whole their using uses simple performs task sequential modulelist moduledict
    parameterlist identity dropout arange full zeroslike oneslike emptylike finfo""".split()  # noqa: SIM905
)
_COMMON = frozenset(
    """add sub mul div pow square sqrt exp log abs neg clamp where sum mean max min transpose permute unsqueeze squeeze expand flatten
    movedim unbind chunk split""".split()  # noqa: SIM905
)
"""Arithmetic and layout: parts of most tasks, and the point of few."""
_USUAL = frozenset(("float32", "int64", "bool"))
"""Data types that nearly every task has: as words they would only find the cards that speak of precision."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]?\b|\d+")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*|\d+")
_TYPES = {"float16": "fp16 half", "bfloat16": "bf16", "float32": "fp32", "int8": "int8", "float64": "fp64"}


@dataclass(frozen=True)
class Query:
    terms: dict[str, float] = field(default_factory=dict)
    """Words as they are, with weights; the index folds case and endings."""
    conditional: bool = False
    """Also find cards with typed conditions that have none of the words: whoever asks checks whether they hold."""

    def __or__(self, other: Query) -> Query:
        terms = dict(self.terms)
        for word, weight in other.terms.items():
            terms[word] = max(weight, terms.get(word, 0.0))
        return Query(terms, self.conditional or other.conditional)


def query_from_text(text: str, weight: float = SAID) -> Query:
    words = _WORDS.findall(text)
    # Who asks for nothing but "cuda" or "batch" means it.
    return Query(_weighted((word, weight) for word in words) or {word.lower(): weight for word in words})


def query_for(task: Task) -> Query:
    """A source that does not parse is read as words."""
    try:
        query = Query(_weighted(_names(ast.parse(task.source))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        query = query_from_text(task.source, NAME)
    tags = Query(_weighted((word, FAMILY) for tag in task.tags for word in _tag_words(tag)))
    return query | tags | query_from_text(task.name.replace("_", " "), LABEL)


def _names(tree: ast.Module) -> Iterator[tuple[str, float]]:
    drawing, building = _inside(tree, ("get_inputs", "get_init_inputs")), _inside(tree, ("__init__",))
    for node in ast.walk(tree):
        if id(node) in drawing:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word in _WORDS.findall(node.value[:2000]):
                yield word, NAME
        elif isinstance(node, ast.Call):
            yield from _called(node.func, id(node) in building)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "matmul", OPERATOR
        elif isinstance(node, ast.Attribute) and id(node) not in building:
            yield node.attr, NAME


def _inside(tree: ast.Module, functions: tuple[str, ...]) -> set[int]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in functions)
    return {id(inner) for node in found for inner in ast.walk(node)}


def _called(called: ast.expr, building: bool) -> Iterator[tuple[str, float]]:
    """A call's name. Where a module is built, only its layers are operators; the rest fills in weights."""
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    if building:
        if name[:1].isupper():
            yield name, OPERATOR
    elif isinstance(called, ast.Attribute):
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        yield name, NAME if owner in ("self", "math") else COMMON if name in _COMMON else OPERATOR
    elif name:
        yield name, NAME


def _tag_words(tag: str) -> list[str]:
    kind, _, value = tag.partition(":")
    if kind in ("level", "problem", "size") or value in _USUAL:
        return []
    return [value, *_TYPES.get(value, "").split()] if value else [kind]


def _weighted(names: Iterator[tuple[str, float]]) -> dict[str, float]:
    terms: dict[str, float] = {}
    for name, weight in names:
        for word, share in _forms(name):
            if len(word) > 1 and word not in _PLUMBING:
                terms[word] = max(weight * share, terms.get(word, 0.0))
    return terms


def _forms(name: str) -> Iterator[tuple[str, float]]:
    """A name in one piece, without its dimension, and its parts, which share the weight."""
    whole = name.replace("_", "").lower()
    yield whole, 1.0
    bare = re.sub(r"([123]d)?(loss)?$", "", whole)
    if bare and bare != whole:
        yield bare, 0.8
    parts = [part.lower() for piece in name.split("_") for part in _PARTS.findall(piece)]
    if len(parts) > 1:
        for part in parts:
            if len(part) > 2:
                yield part, 1 / len(parts)
