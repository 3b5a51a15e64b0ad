"""A formula: a few primitive operators in any order, over rows or images, with sums over an axis on the way.

What a catalogue of named operators does not teach: norms, softmaxes and gates that somebody wrote out by hand, and expressions that are
nobody's idiom. Whoever turns these into a kernel must read what stands there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from bottega.tasks.synth.costs import OperatorCost, TimeTarget
from bottega.tasks.synth.draw import rounded
from bottega.tasks.synth.formula_terms import LAYOUTS, Term, TermList

SIZES = {
    "cpu": {
        "features": (64, 128, 192, 256, 384, 512, 768, 1000, 1024, 1536, 2048),
        "channels": (8, 16, 24, 32, 48, 64),
        "side": (14, 16, 28, 32, 56),
        "length": (32, 50, 64, 128),
    },
    "cuda": {
        "features": (128, 256, 384, 500, 512, 768, 1024, 1536, 2048, 3000, 4096, 8192),
        "channels": (16, 32, 48, 64, 96, 128, 256),
        "side": (16, 28, 32, 56, 64, 112, 128),
        "length": (64, 128, 200, 512, 1024),
    },
}
NAMES = (
    "y",
    "z",
    "u",
    "v",
    "w",
    "h",
    "t",
    "s",
    "a",
    "b",
    "c",
    "d",
    "out",
    "hidden",
    "mid",
    "part",
    "value",
    "gate",
    "base",
    "mixed",
)


@dataclass(frozen=True)
class Formula:
    source: str
    operators: tuple[str, ...]
    milliseconds: float
    bytes: float


def formula(chance: Random, target: TimeTarget, aim: float) -> Formula:
    """A module of about the time that is aimed at."""
    terms = TermList(chance)
    return _Page(terms, target, aim).written(terms.drawn())


class _Page:
    """The terms as a file that a person might have written: some by name, some inside of others."""

    def __init__(self, terms: TermList, target: TimeTarget, aim: float) -> None:
        self.terms, self.chance, self.target, self.aim = terms, terms.chance, target, aim

    def written(self, last: Term) -> Formula:
        lines: list[str] = []
        free = [
            name
            for name in self.chance.sample(NAMES, len(NAMES))
            if name not in {self.terms.first, *(term.name for term in self.terms.terms)}
        ]
        order = list(_order(last))
        rest = {id(term): sum(other.operands.count(term) for other in order) for term in order}
        for term in order:
            if term.kind or term is last:
                continue
            often = sum(other.operands.count(term) for other in order) > 1 or _mentions(order, term)
            if often or self.chance.random() < 0.55:
                text = self._text(term)
                for operand in term.operands:
                    rest[id(operand)] = rest.get(id(operand), 0) - 1
                done = [
                    one for one in order if one.kind == "input" and one.name == self.terms.first and rest.get(id(one), 0) <= 0
                ]
                again = bool(done) and self.chance.random() < 0.5
                name = self.terms.first if again else free.pop() if free else f"t{len(lines)}"
                lines.append(f"{name} = {text}")
                term.name = name
        final = self._text(last)
        lines += (
            [f"return {final}"]
            if self.chance.random() < 0.7
            else [f"{self.terms.first} = {final}", f"return {self.terms.first}"]
        )
        operators = tuple(sorted(term.operator for term in order if term.operator))
        return self._file(lines, operators)

    def _text(self, term: Term) -> str:
        if term.name:
            return term.name
        return term.write(*(self._inlined(operand) for operand in term.operands))

    def _inlined(self, term: Term) -> str:
        text = self._text(term)
        return text if term.name or term.simple else f"({text})"

    def _file(self, lines: list[str], operators: tuple[str, ...]) -> Formula:
        chance, sizes = self.chance, SIZES[self.target.name]
        names = LAYOUTS[self.terms.layout]
        given = {
            "features": chance.choice(sizes["features"]), "channels": chance.choice(sizes["channels"]),
            "height": chance.choice(sizes["side"]), "width": chance.choice(sizes["side"]), "length": chance.choice(sizes["length"]),
        }  # fmt: skip
        lead, inner = names[0], names[1:]
        each = 1
        for name in inner:
            each *= given[name]
        bytes_each = 8.0 * each * max(2, len(operators))
        wanted = self.aim * 1e-3 * self.target.bandwidth / bytes_each
        given[lead] = max(
            2,
            rounded(
                min(wanted, self.target.largest_bytes / (4.0 * each * 4)), chance.choice(("power", "power", "round", "odd"))
            ),
        )
        shape = {"rows": "features", "sequence": "features", "images": "channels, 1, 1"}[self.terms.layout]
        makes = {False: f"torch.ones({shape}) + 0.1 * torch.randn({shape})", True: f"0.1 * torch.randn({shape})"}
        size = shape.partition(",")[0]
        constructor = [f"self.{name} = nn.Parameter({makes[second]})" for name, second in self.terms.used.items()]
        inputs = [term.name for term in self._inputs]
        head = [
            "import torch",
            "import torch.nn as nn",
            *(["import torch.nn.functional as F"] if self.terms.functional else []),
        ]
        model = ["class Model(nn.Module):"]
        if constructor:
            model += [
                f"    def __init__(self, {size}):",
                "        super().__init__()",
                *(f"        {line}" for line in constructor),
                "",
            ]
        model += [f"    def forward(self, {', '.join(inputs)}):", *(f"        {line}" for line in lines)]
        constants = [f"{name} = {given[name]}" for name in names]
        draw = chance.choice(("torch.randn", "torch.randn", "torch.rand"))
        tensors = ", ".join(f"{draw}({', '.join(names)})" for _ in inputs)
        makers = [
            f"def get_inputs():\n    return [{tensors}]",
            f"def get_init_inputs():\n    return [{size if constructor else ''}]",
        ]
        source = "\n\n\n".join(["\n".join(head), "\n".join(model), "\n".join(constants), *makers]) + "\n"
        total = given[lead] * each
        took = self.target.milliseconds(OperatorCost(8.0 * total * len(operators), launches=len(operators)), "float32")
        return Formula(source, operators, took, 4.0 * total * (len(inputs) + 2))

    @property
    def _inputs(self) -> list[Term]:
        return [term for term in self.terms.terms if term.kind == "input"]


def _order(last: Term) -> Iterator[Term]:
    """Operands before what is made of them, each once."""
    seen: set[int] = set()

    def visit(term: Term) -> Iterator[Term]:
        if id(term) not in seen:
            seen.add(id(term))
            for operand in term.operands:
                yield from visit(operand)
            yield term

    return visit(last)


def _mentions(order: list[Term], term: Term) -> bool:
    """Whether a term that is made of it writes it more than once."""
    return any(
        term in other.operands and other.write(*("@" if one is term else "#" for one in other.operands)).count("@") > 1
        for other in order
    )
