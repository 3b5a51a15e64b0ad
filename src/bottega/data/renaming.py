"""The same example under other names: a small model must learn to copy what a task calls its tensors and layers, not to expect `x` and `conv`.

Names of the task's own choosing (arguments, attributes, constants) are exchanged in all of the conversation at once, so that task,
kernels and diagnoses still speak of the same things. A name that also means something else anywhere stays as it is: a function of
torch, a keyword of a call, or what the teacher calls something of its own, which a small model is to learn by heart. Where a prompt
shows a call graph in place of the task, that says which names there are.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bottega.agents.answers.fences import blocks
from bottega.backbone.chat import Message
from bottega.core.errors import TaskError
from bottega.core.task import parsed
from bottega.data.callgraph_names import Sketched, sketched
from bottega.data.example import Example
from bottega.data.fresh_names import ARGUMENTS, ATTRIBUTES, CONSTANTS, draw
from bottega.data.own_names import own_names

DERIVED = ("", "_val", "_ptr")
"""What the teacher hangs on the name of a tensor."""
SHARE = 0.75
"""Of the names, how many change in one copy."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_OTHERS = frozenset((*keyword.kwlist, "torch", "nn", "F", "tl", "triton", "math", "self", "out"))
_FOREIGN = re.compile(r"(?:(?<!\bself)\.|::)([^\W\d]\w*)")
"""An attribute of something else than the module, also of a submodule: the name may be torch's, or C++'s as in `std::floor`."""
_GIVEN = re.compile(r"\b([^\W\d]\w*)=(?!=)")
"""A keyword of a call."""
_CALLED = re.compile(r"^t\d\w*(?:, t\w+)* = ([^\W\d]\w*)\(", re.M)
"""A function of torch in a call graph, where it stands without its module."""


def renamed(example: Example, seed: int) -> Example | None:
    """None where nothing could be changed, or where a text of the example could not be read."""
    return _copies(example, (seed,))[0]


def renamings(example: Example, number: int) -> list[Example | None]:
    """Copies by the seeds from 0 on: what they share is read once."""
    return _copies(example, range(number))


def _copies(example: Example, seeds: Sequence[int]) -> list[Example | None]:
    texts = [message.content for message in example.messages]
    if (over := sketched(example.messages)) is not None:
        return [_sketched_copy(example, over, seed) for seed in seeds]
    task = next((block.body for block in blocks(texts[1])), "") if len(texts) > 1 else ""
    everything = "\n".join(texts)
    words = set(_WORD.findall(everything))
    try:
        tree = parsed(task, "task")
        answer = [parsed(block.body, "answer") for block in blocks(texts[-1]) if block.info == "python"]
    except TaskError:
        return [None] * len(seeds)
    known = (pattern.findall(everything) for pattern in (_FOREIGN, _GIVEN, _CALLED))
    kept = _OTHERS.union(*known, *(own_names(one, tree) for one in answer))
    names = [(name, pool) for name, pool in _names(tree) if name not in kept and not hasattr(builtins, name)]
    key = example.id
    found: list[Example | None] = []
    for seed in seeds:
        pairs = _exchange(names, words, f"{key}/{seed}")
        said = tuple(Message(one.role, _exchanged(one.content, pairs)) for one in example.messages)
        found.append(replace(example, messages=said, renamed=True) if pairs else None)
    return found


def _sketched_copy(example: Example, over: Sketched, seed: int) -> Example | None:
    pairs = over.exchange(f"{example.id}/{seed}", SHARE)
    if not pairs:
        return None
    said = (Message(one.role, "".join(pieces)) for one, pieces in zip(example.messages, _parts(over, pairs)))
    return replace(example, messages=tuple(said), renamed=True)


def _parts(over: Sketched, pairs: dict[str, str]) -> Iterator[list[str]]:
    for pieces in over.pieces:
        yield [_exchanged(piece.text, pairs) if piece.changes else piece.text for piece in pieces]


def _exchanged(text: str, pairs: dict[str, str]) -> str:
    pattern = r"\b(" + "|".join(sorted(map(re.escape, pairs), key=len, reverse=True)) + r")\b"
    return re.sub(pattern, lambda found: pairs[found[1]], text) if pairs else text


def _exchange(names: Sequence[tuple[str, Sequence[str]]], words: set[str], key: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    taken = set(words)
    for name, pool in names:
        if name in pairs or draw(key, name, 1000) >= SHARE * 1000:
            continue
        free = [word for word in pool if not {word + end for end in DERIVED} & taken and word not in keyword.kwlist]
        if free:
            new = free[draw(key, f"{name}/new", len(free))]
            taken |= {new + end for end in DERIVED}
            pairs |= {name + end: new + end for end in DERIVED if name + end in words}
    return pairs


def _names(tree: ast.Module) -> Iterator[tuple[str, Sequence[str]]]:
    """Names that the task chose, with words that may stand for them."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((target.id, CONSTANTS) for target in statement.targets if isinstance(target, ast.Name))
    for model in tree.body:
        if not isinstance(model, ast.ClassDef):
            continue
        for node in ast.walk(model):
            if isinstance(node, ast.FunctionDef):
                pool = ARGUMENTS if node.name == "forward" else CONSTANTS
                yield from ((argument.arg, pool) for argument in node.args.args if argument.arg != "self")
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                yield node.attr, ATTRIBUTES
