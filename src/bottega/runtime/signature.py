"""Reads the signatures of `extern "C"` functions and kernels from source text, which is all that a call needs.

A small parser, not a C++ front end: it drops comments, literals and directives, walks namespaces and linkage
blocks, follows plain type aliases, and leaves what it cannot know (macros that make functions) to a clear error later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<directive> ^[ \t]*\#(?:\\\r?\n|[^\n])* )
    | (?P<raw> R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)" )
    | (?P<string> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<number> \d[\w.']* )
    | (?P<mark> :: | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+([A-Za-z_][\w\s:]*?)\s*(?://.*|/\*.*)?$")

_INTEGERS = {
    "char": "b", "signed char": "b", "int8_t": "b", "unsigned char": "B", "uint8_t": "B",
    "short": "h", "int16_t": "h", "unsigned short": "H", "uint16_t": "H",
    "int": "i", "int32_t": "i", "unsigned": "I", "uint32_t": "I", "uint": "I",
    "long": "q", "long long": "q", "int64_t": "q", "ptrdiff_t": "q", "ssize_t": "q", "intptr_t": "q",
    "unsigned long": "Q", "unsigned long long": "Q", "uint64_t": "Q", "size_t": "Q", "uintptr_t": "Q",
}  # fmt: skip
SCALARS = {**_INTEGERS, "float": "f", "double": "d", "bool": "?", "_Bool": "?"}
"""Types that can be passed by value, and the format character that `struct` knows each by."""

_QUALIFIERS = frozenset(re.findall(r"\S+", """
    const volatile register constexpr inline static extern restrict __restrict__ __restrict __inline__ __forceinline__
    __global__ __device__ __host__ __grid_constant__ struct class enum typename std ::"""))  # fmt: skip
_CALLED_ATTRIBUTES = frozenset(re.findall(r"\S+", """
    __attribute__ __launch_bounds__ __cluster_dims__ __maxnreg__ __block_size__ __align__ alignas noexcept"""))  # fmt: skip
_OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class CType:
    base: str
    """The type without qualifiers and pointers, in one canonical spelling: `unsigned long`, `float`, `__half`."""
    pointers: int = 0

    @property
    def code(self) -> str | None:
        """The `struct` format character of a type passed by value; None for a pointer and for an unknown type."""
        return None if self.pointers else SCALARS.get(self.base)

    def __str__(self) -> str:
        return self.base + "*" * self.pointers


@dataclass(frozen=True)
class CParameter:
    name: str
    type: CType

    def __str__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


@dataclass(frozen=True)
class Signature:
    name: str
    returns: CType
    parameters: tuple[CParameter, ...]
    kernel: bool = False
    """Declared `__global__`."""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def read_signatures(source: str) -> dict[str, Signature | None]:
    """Every function with C linkage by its name; None where two declarations of one name disagree."""
    tokens, aliases = _tokens(source)
    found: dict[str, Signature | None] = {}
    for statement in _c_linkage_statements(tokens, aliases):
        signature = _signature(statement, aliases)
        if signature is None:
            continue
        before = found.setdefault(signature.name, signature)
        if before is not None and [p.type for p in before.parameters] != [p.type for p in signature.parameters]:
            found[signature.name] = None
    return found


def _tokens(source: str) -> tuple[list[str], dict[str, list[str]]]:
    """Words, marks and plain strings in order, and the macros that stand for a type (`#define scalar float`)."""
    tokens: list[str] = []
    aliases: dict[str, list[str]] = {}
    for match in _TOKEN.finditer(source):
        if match.lastgroup in ("comment", "raw"):
            continue
        if match["directive"]:
            if define := _DEFINE.match(match["directive"]):
                aliases.setdefault(define[1], define[2].split())
            continue
        tokens.append(match[0])
    return tokens, aliases


def _c_linkage_statements(tokens: list[str], aliases: dict[str, list[str]]) -> Iterator[list[str]]:
    """Heads of declarations and definitions with C linkage. Type aliases met on the way are added to `aliases`."""
    linkages = [False]
    statement: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token == "{":
            if statement[-2:] == ["extern", '"C"'] or "namespace" in statement:
                linkages.append(linkages[-1] or '"C"' in statement)
            else:
                if linkages[-1] or statement[:2] == ["extern", '"C"']:
                    yield statement
                position = _closing(tokens, position)
            statement = []
        elif token == "}":
            linkages = linkages[:-1] or [False]
            statement = []
        elif token == ";":
            _note_alias(statement, aliases)
            if linkages[-1] or statement[:2] == ["extern", '"C"']:
                yield statement
            statement = []
        elif token in _OPENING:
            end = _closing(tokens, position)
            statement += tokens[position : end + 1]
            position = end
        else:
            statement.append(token)
        position += 1


def _note_alias(statement: list[str], aliases: dict[str, list[str]]) -> None:
    if len(statement) > 3 and statement[0] == "using" and statement[2] == "=":
        aliases.setdefault(statement[1], statement[3:])
    elif len(statement) > 2 and statement[0] == "typedef" and "(" not in statement:
        aliases.setdefault(statement[-1], statement[1:-1])


def _closing(tokens: list[str], start: int) -> int:
    """The position of the bracket that closes the one at `start`, or the last position if none does."""
    opening, closing = tokens[start], _OPENING[tokens[start]]
    depth = 0
    for position in range(start, len(tokens)):
        if tokens[position] == opening:
            depth += 1
        elif tokens[position] == closing:
            depth -= 1
            if depth == 0:
                return position
    return len(tokens) - 1


def _signature(statement: list[str], aliases: dict[str, list[str]]) -> Signature | None:
    """The function that a statement's head declares, or None where it declares something else."""
    head = _without_attributes(statement)
    if "(" not in head or head[0] in ("template", "using", "typedef"):
        return None
    start = head.index("(")
    end = _closing(head, start)
    if start < 2 or "=" in head[:start] or not head[start - 1].isidentifier():
        return None
    returns = [token for token in head[: start - 1] if token not in ("extern", '"C"')]
    parameters = _split(head[start + 1 : end])
    if parameters == [["void"]]:
        parameters = []
    return Signature(
        head[start - 1],
        _type(returns, aliases),
        tuple(_parameter(tokens, aliases) for tokens in parameters),
        "__global__" in head,
    )


def _without_attributes(statement: list[str]) -> list[str]:
    """The statement without `[[...]]` and `__launch_bounds__(...)` and their like."""
    kept: list[str] = []
    position = 0
    while position < len(statement):
        token = statement[position]
        if statement[position : position + 2] == ["[", "["]:
            position = _closing(statement, position)
        elif token in _CALLED_ATTRIBUTES:
            if statement[position + 1 : position + 2] == ["("]:
                position = _closing(statement, position + 1)
        else:
            kept.append(token)
        position += 1
    return kept


def _split(tokens: list[str]) -> list[list[str]]:
    """The parts between commas that stand in no bracket, angle brackets counted."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _parameter(tokens: list[str], aliases: dict[str, list[str]]) -> CParameter:
    if "=" in tokens:
        tokens = tokens[: tokens.index("=")]
    arrays = 0
    while "[" in tokens:
        start = tokens.index("[")
        tokens = tokens[:start] + tokens[_closing(tokens, start) + 1 :]
        arrays += 1
    core = [token for token in tokens if token not in _QUALIFIERS]
    name = ""
    is_type_word = core[-1:] and (core[-1] in SCALARS or core[-1] in ("signed", "unsigned", "void"))
    if len(core) > 1 and core[-1].isidentifier() and not is_type_word:
        name = core.pop()
    kind = _type(core, aliases)
    return CParameter(name, CType(kind.base, kind.pointers + arrays))


def _type(tokens: list[str], aliases: dict[str, list[str]]) -> CType:
    """The type that the tokens spell, aliases followed. A reference is passed as a pointer is."""
    for _ in range(8):  # a chain of aliases is short, and one that names itself must end
        if not any(token in aliases for token in tokens):
            break
        tokens = [part for token in tokens for part in aliases.get(token, [token])]
    words = [token for token in tokens if token not in _QUALIFIERS and token not in "*&"]
    pointers = sum(token in "*&" for token in tokens)
    if words and set(words) <= {"signed", "unsigned", "short", "long", "int", "char"}:
        # C++ lets these words come in any order: `long unsigned int` is `unsigned long`.
        size = [word for word in words if word in ("short", "long", "char")]
        sign = ["unsigned"] if "unsigned" in words else ["signed"] if "signed" in words and "char" in words else []
        words = sign + size or ["int"]
    return CType(" ".join(words), pointers)
