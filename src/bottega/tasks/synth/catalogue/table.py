"""How the catalogue is read: one row for each operator, with all the ways in which it is written.

    [kind] family chain alone
    name*often@start,start~contents: form | statement ; expression <- attribute = layer & attribute = layer

`chain` and `alone` say how often the kind is drawn behind other operators and as a task of its own. A form is text with `x` for the current
value; `{words}` stand for what `words.py` and the current shape say, `{a/b}` for one of several, `{@name}` for an attribute that is made behind
the arrow. A form `nn.Layer(...)` is made once and called. `@` names the shapes that the operator is shown with alone, `~` what its input must
hold: with that it only stands alone. A line that is indented goes on with the row above. Whatever torch refuses is drawn again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"\[(\w+)\] (\w+) ([\d.]+) ([\d.]+)")
_ROW = re.compile(r"(\w+)(?:\*([\d.]+))?(?:@([\w,]+))?(?:~(\w+))?: (.*)")
_MODULE = re.compile(r"nn\.[A-Z]")
_OWNERS = {"F.": "functional", "torch.": "torch", "x.": "method"}


@dataclass(frozen=True)
class Form:
    lines: tuple[str, ...]
    """Statements; the last is the result."""
    made: tuple[tuple[str, str], ...] = ()
    """Attributes by name, with the text that makes each in the constructor."""

    @property
    def kind(self) -> str:
        """`module`, `functional`, `torch`, `method` or `expression`: authors like one of them best."""
        last = self.lines[-1]
        if re.fullmatch(r"\{@\w+\}\(x\)", last):
            return "module"
        return next((kind for prefix, kind in _OWNERS.items() if last.startswith(prefix)), "expression")


@dataclass(frozen=True)
class Operator:
    name: str
    family: str
    kind: str
    often: float
    starts: tuple[str, ...]
    contents: str
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Kind:
    family: str
    chain: float
    alone: float
    operators: tuple[Operator, ...]


def read_kinds(*tables: str) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for section in "\n".join(tables).strip().split("\n\n"):
        header, *rows = re.sub(r"\n +", " ", section.strip()).split("\n")
        found = _HEADER.fullmatch(header)
        assert found is not None, header
        name, family, chain, alone = found.groups()
        operators = tuple(_operator(row, family, name) for row in rows)
        kinds[name] = Kind(family, float(chain), float(alone), operators)
    return kinds


def _operator(row: str, family: str, kind: str) -> Operator:
    found = _ROW.fullmatch(row)
    assert found is not None, row
    name, often, starts, contents, forms = found.groups()
    starting = tuple(starts.split(",")) if starts else ()
    return Operator(name, family, kind, float(often or 1), starting, contents or "", tuple(map(_form, forms.split(" | "))))


def _form(text: str) -> Form:
    call, _, made = text.strip().partition(" <- ")
    if _MODULE.match(call):
        return Form(("{@layer}(x)",), (("layer", call),))
    attributes = [part.partition(" = ") for part in made.split(" & ")] if made else []
    return Form(tuple(call.split(" ; ")), tuple((name.strip(), layer) for name, _, layer in attributes))
