"""Puts functions of the kernel library into a C++ source that calls and does not define them, and takes them out again.

The source is read word by word. Where a word may be a definition it counts as one: then nothing is added.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from bottega.compiler.library.cpp.functions import FUNCTIONS, headers, spaced
from bottega.compiler.library.cpp.sweeps import first_of, sweep
from bottega.compiler.library.cpp.vectors import LOAD, SIX, VECTOR

_DEFINED = re.compile(r"\b(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*(?:const\s*)?\{")
"""A function with its body, whatever its type."""
_ENUMERATED = re.compile(r"\benum\b[^{;]{0,200}\{([^}]{0,2000})\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(
    r"//[^\n]*|/\*(?:.*?\*/|.*)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?"  # what is no code, closed or not: every text is read once
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d[\w.']*)|(?P<sign>::|->|==|[^\s\w])",
    re.S,
)
_NAMED = re.compile(r"static inline \w+ (\w+)\(")
_INCLUDE = re.compile(r"(?<![ \t])[ \t]*#[ \t]*include[ \t]*<([\w./]+)>[ \t]*")
_BEFORE_A_USE = ("return", "else", "do", "case", "throw", "const", "constexpr", "static", "inline", "volatile", "typename",
                 "sizeof", "new", "and", "or", "not")  # fmt: skip
"""Words that may stand before a name without declaring it; any other word before it is a type, or `define`."""
_TYPES = ("float", "double", "int", "bool", "char", "void", "auto", "short", "long", "unsigned", "signed", "vec")
_MEMBER = (".", "->", "::")
_ODD = ('R"', "??/", "\\\n")
"""Raw strings and lines that go on: sources with these are left alone."""


@dataclass(frozen=True)
class CppPart:
    names: tuple[str, ...]
    text: str
    needs: tuple[str, ...]
    """Names of others."""
    called: bool
    """A function, whose name alone is no use of it."""


@functools.cache
def cpp_parts() -> dict[str, CppPart]:
    """By name, in an order in which each stands behind what it needs."""
    vector = CppPart(("vec", "LANES", "WIDE", "HIGH"), VECTOR, (), called=False)
    texts = [(_NAMED.findall(text)[0], text.replace("TYPE", "float")) for text, _ in FUNCTIONS.values()]
    for kind in ("float", "double", "int64_t", "bool"):
        for operation in ("sum", "prod", "any", "all", "max", "min", "argmax", "argmin"):
            texts += sweep(operation, kind)
        texts.append(first_of(kind))
    texts += [("load", LOAD), ("six_rows", SIX)]
    parts = dict.fromkeys(vector.names, vector)
    for name, text in texts:
        read = {word.name for word in _words(text)} - {name}
        parts.setdefault(name, CppPart((name,), text, tuple(other for other in parts if other in read), called=True))
    return parts


def with_functions(source: str) -> str:
    """The source with what it calls and does not define, behind its includes."""
    if any(mark in source for mark in _ODD):
        return source
    missing = _missing(source)
    return _joined(source, missing) if missing else source


def without_functions(source: str) -> str:
    """What `with_functions` makes the same source of again, but for the order of what it adds."""
    if any(mark in source for mark in _ODD):
        return source
    found = [part for part in _ordered(cpp_parts()) if source.count(part.text) == 1]
    while found:
        short = source
        for part in found:
            short = re.sub(r"\n{3,}", "\n\n", short.replace(part.text + "\n", "", 1))
        back = _missing(short)
        if back == found:
            return _without_includes(short, source, back)
        found = [part for part in found if part in back] if set(found) > set(back) else []
    return source


@dataclass(frozen=True)
class _Word:
    name: str
    before: tuple[str, str]
    """The words before it, the nearest last."""
    after: str


def _words(text: str) -> list[_Word]:
    tokens = [match.group() for match in _WORD.finditer(text) if match.lastgroup]
    around = ["", "", *tokens, ""]
    return [_Word(token, (around[at], around[at + 1]), around[at + 3]) for at, token in enumerate(tokens)]


def _missing(source: str) -> list[CppPart]:
    used: set[str] = set()
    defined: set[str] = set()
    parts = cpp_parts()
    defined |= {name for name in _DEFINED.findall(source) if name in parts}
    defined |= {name for inside in _ENUMERATED.findall(source) for name in _NAME.findall(inside) if name in parts}
    for word in _words(source):
        if (part := parts.get(word.name)) is None:
            continue
        if _declares(word):
            defined.add(word.name)
        elif word.before[1] not in _MEMBER and (word.after == "(" or not part.called):
            used.add(word.name)
    wanted: dict[str, None] = {}
    pending = sorted(name for name in used if not _is_defined(parts[name], defined))
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted[name] = None
            pending += [need for need in parts[name].needs if not _is_defined(parts[need], defined)]
    return _ordered(wanted)


def _declares(word: _Word) -> bool:
    further, before = word.before
    if before[:1].isidentifier():
        return before not in _BEFORE_A_USE
    if before in ("*", "&"):
        return further in _TYPES or further.endswith("_t")
    return word.after == "=" or (before == "::" and word.after == ";")


def _is_defined(part: CppPart, defined: Set[str]) -> bool:
    return not defined.isdisjoint(part.names)


def _ordered(names: Iterable[str]) -> list[CppPart]:
    wanted, parts = set(names), cpp_parts()
    return list(dict.fromkeys(part for name, part in parts.items() if name in wanted))


def _joined(source: str, parts: list[CppPart]) -> str:
    texts = "\n\n".join(spaced([part.text for part in parts]))
    lines = source.split("\n")
    end = 0
    for at, line in enumerate(lines):
        if _INCLUDE.fullmatch(line):
            end = at + 1
        elif line.strip() and not line.lstrip().startswith("//"):
            break
    first = 1 if not lines[0].strip() and len(lines) > 1 else 0
    above, below = lines[first:end], "\n".join(lines[max(end, first) :]).lstrip("\n")
    present = {match.group(1) for line in above if (match := _INCLUDE.fullmatch(line))}
    added = [f"#include <{header}>" for header in headers(texts) if header not in present]
    plain = all(_INCLUDE.fullmatch(line) for line in above) and above == sorted(above)
    above = sorted([*above, *added]) if plain else [*above, *added]
    return "\n".join([*lines[:first], *above, "", texts, "", below])


def _without_includes(short: str, source: str, parts: list[CppPart]) -> str:
    """Without the includes that only the functions needed."""
    idle = set(headers("\n".join(part.text for part in parts))) - set(headers(_INCLUDE.sub("", short)))
    lines = [line for line in short.split("\n") if not ((match := _INCLUDE.fullmatch(line)) and match.group(1) in idle)]
    return "\n".join(lines)
