"""What to look for: a task's source and tags, or plain words, as weighted terms.

Operators that the task calls weigh most, its families next, other names and words least. `LayerNorm`, `layer_norm` and "layer norm"
must meet, and cards are written in all three ways, so a name asks for itself in one piece and for its parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bottega.core.task import Task

OPERATOR, FAMILY, SAID, NAME = 3.0, 2.0, 2.0, 0.6

_PLUMBING = frozenset(
    """self super init forward torch nn functional model module tensor get inputs input init_inputs return def class import none true
    false the and for with from that this into are not def args kwargs float int bool list tuple dict str len range x y z out size
    shape view reshape contiguous randn rand zeros ones empty parameter dim dims batch device dtype cuda cpu print a b of in to is
    it on as by an or be using uses simple performs""".split()  # noqa: SIM905
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]?\b|\d+")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*|\d+")
_TYPES = {"float16": "fp16 half", "bfloat16": "bf16", "float32": "fp32", "int8": "int8", "float64": "fp64"}


@dataclass(frozen=True)
class Query:
    terms: dict[str, float] = field(default_factory=dict)
    """Words as they are, with weights; the index folds case and endings."""

    def __or__(self, other: Query) -> Query:
        terms = dict(self.terms)
        for word, weight in other.terms.items():
            terms[word] = max(weight, terms.get(word, 0.0))
        return Query(terms)


def query_from_text(text: str, weight: float = SAID) -> Query:
    return Query(_weighted((word, weight) for word in _WORDS.findall(text)))


def query_for(task: Task, diagnosis: str = "") -> Query:
    """From a task and, where there is one, the diagnosis of the last attempt. A source that does not parse is read as words."""
    try:
        query = Query(_weighted(_names(ast.parse(task.source))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        query = query_from_text(task.source, NAME)
    tags = Query(_weighted((word, FAMILY) for tag in task.tags for word in _tag_words(tag)))
    return query | tags | query_from_text(diagnosis, 1.0)


def _names(tree: ast.Module) -> Iterator[tuple[str, float]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                own = isinstance(called.value, ast.Name) and called.value.id == "self"
                yield called.attr, NAME if own else OPERATOR
            elif isinstance(called, ast.Name):
                yield called.id, NAME
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "matmul", OPERATOR
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word in _WORDS.findall(node.value[:2000]):
                yield word, NAME
        elif isinstance(node, ast.Attribute):
            yield node.attr, NAME


def _tag_words(tag: str) -> list[str]:
    kind, _, value = tag.partition(":")
    if kind in ("level", "problem"):
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
    """A name in one piece, without its dimension, and its parts at half the weight."""
    whole = name.replace("_", "").lower()
    yield whole, 1.0
    bare = re.sub(r"([123]d)?(loss)?$", "", whole)
    if bare and bare != whole:
        yield bare, 0.8
    parts = [part.lower() for piece in name.split("_") for part in _PARTS.findall(piece)]
    if len(parts) > 1:
        for part in parts:
            if len(part) > 2:
                yield part, 0.5
