"""The names that a call graph shows and an answer copies (inputs of `forward`, attributes of the module), and their replacements.

They change in the printed call graph, in earlier attempts and in the answer; cards and diagnoses stay to the letter, so a name of which a diagnosis
speaks stays too. So does one that is anything else in the code as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bottega.agents.answers.fences import blocks
from bottega.backbone.chat import Message
from bottega.compiler.source.text import parsed
from bottega.data.fresh_names import ARGUMENTS, ATTRIBUTES, draw, invented, usable
from bottega.data.own_names import ENTRY, own_names

GENERAL = "def tiles("
"""Stands in answers with layers that fit every task: what those call their inputs is the same everywhere."""
TRIES = 4
"""Invented words that are looked at before a name stays as it is."""
_CALLED_WITH = re.compile(r"\Aforward\(([^()]*)\)$", re.M)
_RETURNS = re.compile(r"^return .+\Z", re.M)
_ATTEMPT = re.compile(r"^## (?:Attempt \d+|Best so far): ", re.M)
_WORD = re.compile(r"[^\W\d]\w*")
_ATTRIBUTE = re.compile(r"\bself\.([^\W\d]\w*)")
_FOREIGN = re.compile(r"(?:(?<!\bself)\.|::)([^\W\d]\w*)")
_GIVEN = re.compile(r"\b([^\W\d]\w*)=(?!=)")
_QUOTED = re.compile(r"'(\w+)'")
_CALLED = re.compile(r"^t\d\w*(?:, t\w+)* = ([^\W\d]\w*)\(", re.M)
_BEFORE, _BEHIND = (
    r"(?:static_)?",
    r"(?:_\d+)*(?:_(?:weight|bias|running_mean|running_var))?(?:_(?:ptr|val|in|offset|stride\d*))?",
)
"""What the teacher hangs on the name of a tensor."""
_OTHERS = frozenset(("torch", "nn", "F", "tl", "triton", "math", "self", "out", "forward"))


@dataclass(frozen=True)
class MessagePart:
    text: str
    changes: bool


@dataclass(frozen=True)
class _Name:
    old: str
    pool: Sequence[str]
    bare: bool = True
    """Whether the word alone is this name too; else only `self.NAME` is."""


@dataclass(frozen=True)
class Sketched:
    pieces: tuple[tuple[MessagePart, ...], ...]
    """Of every message."""
    names: tuple[_Name, ...]
    said: frozenset[str]
    """Every word of the conversation."""
    fixed: frozenset[str]
    """Words of the code that are no names of the task's."""

    def exchange(self, key: str, share: float) -> dict[str, str]:
        """New words for old ones, drawn by the key."""
        pairs: dict[str, str] = {}
        taken = set(self.said)
        own = {name.old for name in self.names}
        for name in self.names:
            derived = re.compile(rf"({_BEFORE}){re.escape(name.old)}({_BEHIND})")
            found = [match for word in self.said - self.fixed - (own - {name.old}) if (match := derived.fullmatch(word))]
            new = _new(name, key, taken, found) if draw(key, name.old, 1000) < share * 1000 else ""
            if new:
                words = {match[0]: f"{match[1]}{new}{match[2]}" for match in found if match[0] != name.old or name.bare}
                words |= {} if name.bare else {f"self.{name.old}": f"self.{new}"}
                taken |= {new, *words.values()}
                pairs |= words
        return dict(sorted(pairs.items()))


def sketched(messages: Sequence[Message]) -> Sketched | None:
    """None where the prompt does not begin with a call graph."""
    if len(messages) < 3:
        return None
    first = next(iter(blocks(messages[1].content)), None)
    if first is None or first.info or not _RETURNS.search(first.body.strip()):
        return None
    user = messages[1].content
    attempt = _ATTEMPT.search(user, first.end)
    past = attempt.start() if attempt else len(user)
    attempts, answers = tuple(_cut(user[past:])), [tuple(_cut(message.content)) for message in messages[2:]]
    shown = (*_cut(user[: first.end]), MessagePart(user[first.end : past], False), *attempts)
    pieces = ((MessagePart(messages[0].content, False),), shown, *answers)
    prose = " ".join(piece.text for part in (attempts, *answers) for piece in part if not piece.changes)
    texts = (user[past:], *(message.content for message in messages[2:]))
    code = [block.body for text in texts for block in blocks(text)]
    fixed = frozenset(_fixed(first.body, code).union(_WORD.findall(prose)))
    said = frozenset(word for message in messages for word in _WORD.findall(message.content))
    return Sketched(pieces, tuple(_names(first.body.strip(), "\n".join(code), fixed)), said, fixed)


def _cut(text: str) -> Iterator[MessagePart]:
    """Blocks, which change, and what is between them."""
    at = 0
    for block in blocks(text):
        yield from (MessagePart(text[at : block.start], False), MessagePart(text[block.start : block.end], True))
        at = block.end
    yield MessagePart(text[at:], False)


def _fixed(printed: str, code: Sequence[str]) -> set[str]:
    """What belongs to torch, to a call or to the answer itself."""
    everything = "\n".join((printed, *code))
    found = set(_OTHERS).union(*(pattern.findall(everything) for pattern in (_FOREIGN, _GIVEN)), _QUOTED.findall(printed))
    nothing = ast.Module([], [])
    for text in code:
        if (tree := parsed(text)) is not None:
            found |= own_names(tree, nothing) | _of_other_classes(tree)
    return found


def _of_other_classes(tree: ast.Module) -> set[str]:
    """Attributes of classes that the answer brings along: their `self` is another one."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != ENTRY]
    return {node.attr for each in classes for node in ast.walk(each) if isinstance(node, ast.Attribute)}


def _names(printed: str, code: str, fixed: frozenset[str]) -> Iterator[_Name]:
    called = set(_CALLED.findall(printed))
    head = _CALLED_WITH.match(printed)
    inputs = [] if head is None or GENERAL in code else [name.strip(" *") for name in head[1].split(",") if name.strip()]
    attributes = [name for name in dict.fromkeys(_ATTRIBUTE.findall(printed)) if name not in inputs]
    for name, pool in [*((name, ARGUMENTS) for name in inputs), *((name, ATTRIBUTES) for name in attributes)]:
        if name in fixed or not usable(name) or re.search(rf"\b{re.escape(name)}\d+\b", code):
            continue
        alone = name in called
        if not alone or (pool is ATTRIBUTES and not re.search(rf"(?<![\w.]){re.escape(name)}\b", code)):
            yield _Name(name, pool, not alone)


def _new(name: _Name, key: str, taken: set[str], found: Sequence[re.Match[str]]) -> str:
    """A word that is free, also with all that hangs on the old one; a common one or an invented one. Empty where none was found."""

    def is_free(word: str) -> bool:
        return usable(word) and word not in taken and not {f"{match[1]}{word}{match[2]}" for match in found} & taken

    common = [word for word in name.pool if is_free(word)] if draw(key, f"{name.old}/common", 2) else []
    if common:
        return common[draw(key, f"{name.old}/new", len(common))]
    words = (invented(key, f"{name.old}/{number}") for number in range(TRIES))
    return next((word for word in words if is_free(word)), "")
