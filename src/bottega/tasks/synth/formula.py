"""A formula: a few primitive operators in any order, over rows or images, with sums over an axis on the way.

What a catalogue of named operators does not teach: norms, softmaxes and gates that somebody wrote out by hand, and expressions that are
nobody's idiom. Whoever turns these into a kernel must read what stands there. Values stay within bounds where they are drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from bottega.tasks.synth.costs import Target, Work
from bottega.tasks.synth.draw import rounded

ANY, POSITIVE, UNIT = "any", "positive", "unit"
"""What is known of a value: nothing; not negative; between 0 and 1."""
LAYOUTS = {
    "rows": ("rows", "features"),
    "sequence": ("batch", "length", "features"),
    "images": ("batch", "channels", "height", "width"),
}
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
INPUTS = ("x", "x", "x", "inp", "data", "h", "features", "z", "tokens", "u")
SECOND = ("y", "other", "residual", "b", "skip", "mask_values")
PARAMETERS = (("scale", "shift"), ("weight", "bias"), ("gamma", "beta"), ("gain", "offset"), ("alpha", "delta"))
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


@dataclass
class Term:
    """One value of the formula: how it is written from others, and how it may be used."""

    write: Callable[..., str]
    operands: tuple[Term, ...] = ()
    knows: str = ANY
    whole: bool = True
    """Of the input's shape; else the axis is a single element."""
    operator: str = ""
    uses: int = 0
    name: str = ""
    simple: bool = False
    """A name or a call, which needs no parentheses around it."""
    kind: str = field(default="", compare=False)


@dataclass(frozen=True)
class Formula:
    source: str
    operators: tuple[str, ...]
    milliseconds: float
    bytes: float


def formula(chance: Random, target: Target, aim: float) -> Formula:
    """A module of about the time that is aimed at."""
    return _Page(chance, target, aim).whole()


class _Page:
    def __init__(self, chance: Random, target: Target, aim: float) -> None:
        self.chance, self.target, self.aim = chance, target, aim
        self.layout = chance.choices(tuple(LAYOUTS), (6, 2, 3))[0]
        self.axis = "1" if self.layout == "images" and chance.random() < 0.5 else "(2, 3)" if self.layout == "images" else "-1"
        self.named_axis = chance.random() < 0.7
        self.methods = chance.random()
        self.functional = chance.random() < 0.3
        self.first = chance.choice(INPUTS)
        self.parameters = chance.choice(PARAMETERS)
        self.used: dict[str, bool] = {}
        self.terms: list[Term] = [self._input(self.first)]
        if chance.random() < 0.25:
            self.terms.append(self._input(next(name for name in chance.sample(SECOND, len(SECOND)) if name != self.first)))

    def whole(self) -> Formula:
        for _ in range(self.chance.randint(2, 6)):
            self.terms.append(self._next())
        left = [term for term in self.terms if not term.uses]
        last = left.pop()
        for term in left:  # nothing is computed in vain
            last = self._joined(last, term)
            self.terms.append(last)
        if self.chance.random() < 0.12 and last.whole:
            last = self._reduced(last, keep=False)
            self.terms.append(last)
        if last.kind == "input" or not last.operator:
            last = self._applied(last)
            self.terms.append(last)
        return self._written(last)

    # the terms

    def _input(self, name: str) -> Term:
        return Term(lambda: name, name=name, simple=True, kind="input")

    def _parameter(self, second: bool) -> Term:
        name = self.parameters[second]
        self.used[name] = second
        return Term(lambda: f"self.{name}", simple=True, kind="parameter")

    def _pick(self, whole: bool | None = None) -> Term:
        """Mostly what came last; now and then something from before."""
        fitting = [term for term in self.terms if whole is None or term.whole == whole]
        return fitting[-1] if self.chance.random() < 0.65 else self.chance.choice(fitting)

    def _next(self) -> Term:
        draw = self.chance.random()
        if draw < 0.30:
            return self._applied(self._pick())
        if draw < 0.48:
            return self._with_number(self._pick())
        if draw < 0.60:
            return self._with_parameter(self._pick(True))
        if draw < 0.76 and len(self.terms) > 1:
            one = self._pick()
            others = [term for term in self.terms if term is not one]
            return self._joined(one, self.chance.choice(others))
        if draw < 0.86:
            return self._reduced(self._pick(True))
        return self._idiom(self._pick(True))

    def _made(self, operator: str, write: Callable[..., str], *operands: Term, knows: str = ANY, simple: bool = False) -> Term:
        for term in operands:
            term.uses += 1
        return Term(write, operands, knows, any(term.whole for term in operands), operator, simple=simple)

    def _call(self, name: str, term: Term, knows: str, options: str = "") -> Term:
        more = f", {options}" if options else ""
        if self.chance.random() < self.methods:
            return self._made(name, lambda text: f"{_held(text)}.{name}({options})", term, knows=knows, simple=True)
        return self._made(name, lambda text: f"torch.{name}({text}{more})", term, knows=knows, simple=True)

    def _applied(self, term: Term) -> Term:
        plain = {"relu": POSITIVE, "sigmoid": UNIT, "tanh": ANY, "abs": POSITIVE, "square": POSITIVE, "sin": ANY, "cos": ANY}
        functional = {"silu": ANY, "gelu": ANY, "softplus": POSITIVE, "leaky_relu": ANY, "elu": ANY}
        choices: list[Callable[[], Term]] = [
            *(lambda name=name, knows=knows: self._call(name, term, knows) for name, knows in plain.items()),
            *(
                lambda name=name, knows=knows: self._made(
                    name, lambda text: f"{'F' if self.functional else 'nn.functional'}.{name}({text})", term, knows=knows, simple=True
                )
                for name, knows in functional.items()
            ),
            lambda: self._made("neg", lambda text: f"-{_held(text)}", term),
            lambda: self._made("exp", lambda text: f"torch.exp(-torch.abs({text}))", term, knows=UNIT, simple=True),
        ]  # fmt: skip
        if term.knows in (POSITIVE, UNIT):
            epsilon = self.chance.choice(("1e-5", "1e-6", "1e-3", "0.1", "1.0"))
            choices += [
                lambda: self._made("sqrt", lambda text: f"torch.sqrt({text} + {epsilon})", term, knows=POSITIVE, simple=True),
                lambda: self._made("log", lambda text: f"torch.log({text} + 1.0)", term, knows=POSITIVE, simple=True),
                lambda: self._made("rsqrt", lambda text: f"torch.rsqrt({text} + 1.0)", term, knows=UNIT, simple=True),
                lambda: self._made("reciprocal", lambda text: f"1.0 / ({text} + 1.0)", term, knows=UNIT),
            ]
        return self.chance.choice(choices)()

    def _with_number(self, term: Term) -> Term:
        number = self.chance.choice(("0.5", "2.0", "0.1", "3.0", "1.5", "0.25", "0.7", "1.702"))
        kept = term.knows if term.knows != UNIT else POSITIVE
        return self.chance.choice(
            (
                lambda: self._made("mul", lambda text: f"{_held(text)} * {number}", term, knows=kept),
                lambda: self._made("mul", lambda text: f"{number} * {_held(text)}", term, knows=kept),
                lambda: self._made("add", lambda text: f"{text} + {number}", term, knows=kept),
                lambda: self._made("sub", lambda text: f"{text} - {number}", term),
                lambda: self._made("sub", lambda text: f"{number} - {_held(text)}", term),
                lambda: self._made("div", lambda text: f"{_held(text)} / {number}", term, knows=kept),
                lambda: self._made(
                    "clamp", lambda text: f"torch.clamp({text}, min=-{number}, max={number})", term, simple=True
                ),
            )
        )()

    def _with_parameter(self, term: Term) -> Term:
        second = self.chance.random() < 0.5
        parameter = self._parameter(second)
        sign = "+" if second else "*"
        return self._made(
            "add" if second else "mul",
            lambda text, weight: f"{text if second else _held(text)} {sign} {weight}",
            term, parameter,
        )  # fmt: skip

    def _joined(self, one: Term, two: Term) -> Term:
        kept = POSITIVE if ANY not in (one.knows, two.knows) else ANY
        ways = [
            lambda: self._made("add", lambda a, b: f"{a} + {b}", one, two, knows=kept),
            lambda: self._made("sub", lambda a, b: f"{a} - {_held(b)}", one, two),
            lambda: self._made("mul", lambda a, b: f"{_held(a)} * {_held(b)}", one, two, knows=kept),
            lambda: self._made("maximum", lambda a, b: f"torch.maximum({a}, {b})", one, two, knows=kept, simple=True),
            lambda: self._made("minimum", lambda a, b: f"torch.minimum({a}, {b})", one, two, knows=kept, simple=True),
        ]
        if two.knows != ANY:
            ways.append(lambda: self._made("div", lambda a, b: f"{_held(a)} / ({b} + 1.0)", one, two, knows=one.knows))
        return self.chance.choice(ways)()

    def _reduced(self, term: Term, keep: bool = True) -> Term:
        name = self.chance.choices(("mean", "amax", "amin", "sum"), (5, 2, 1, 1 if keep else 3))[0]
        made = self._call(name, term, term.knows, self._axis(keep))
        made.whole = not keep
        return made

    def _axis(self, keep: bool = True) -> str:
        return (f"dim={self.axis}" if self.named_axis else self.axis) + (", keepdim=True" if keep else "")

    def _idiom(self, term: Term) -> Term:
        """Something that has a name elsewhere, by hand."""
        axis, epsilon = self._axis(), self.chance.choice(("1e-5", "1e-6", "1e-8"))
        mean = self._made("mean", lambda text: f"{_held(text)}.mean({axis})", term, simple=True)
        mean.whole = False

        def centred() -> Term:
            return self._made("sub", lambda text, middle: f"{text} - {middle}", term, mean)

        def root_mean_square() -> Term:
            return self._made(
                "div",
                lambda text: f"{_held(text)} / torch.sqrt(({_held(text)} * {_held(text)}).mean({axis}) + {epsilon})",
                term,
            )

        def power_norm() -> Term:
            return self._made(
                "div", lambda text: f"{_held(text)} * torch.rsqrt({_held(text)}.pow(2).mean({axis}) + {epsilon})", term
            )

        def length_one() -> Term:
            return self._made(
                "div", lambda text: f"{_held(text)} / ({_held(text)}.pow(2).sum({axis}).sqrt() + {epsilon})", term
            )

        def standard() -> Term:
            spread = self._made(
                "var", lambda text: f"{_held(text)}.var({axis}, unbiased=False)", term, simple=True, knows=POSITIVE
            )
            spread.whole = False
            return self._made(
                "div", lambda text, middle, var: f"({text} - {middle}) / torch.sqrt({var} + {epsilon})", term, mean, spread
            )

        def softmax() -> Term:
            top = self._made("amax", lambda text: f"{_held(text)}.amax({axis})", term, simple=True)
            top.whole = False
            powers = self._made("exp", lambda text, most: f"torch.exp({text} - {most})", term, top, knows=UNIT, simple=True)
            self.terms.append(powers)
            return self._made("div", lambda text: f"{_held(text)} / {_held(text)}.sum({axis})", powers, knows=UNIT)

        def gated() -> Term:
            return self._made("mul", lambda text: f"{_held(text)} * torch.sigmoid({text})", term)

        chosen = self.chance.choice((centred, root_mean_square, power_norm, length_one, standard, softmax, gated, gated))()
        if mean not in chosen.operands:
            term.uses -= 1
        return chosen

    # the text

    def _written(self, last: Term) -> Formula:
        lines: list[str] = []
        free = [
            name
            for name in self.chance.sample(NAMES, len(NAMES))
            if name not in {self.first, *(term.name for term in self.terms)}
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
                done = [one for one in order if one.kind == "input" and one.name == self.first and rest.get(id(one), 0) <= 0]
                again = bool(done) and self.chance.random() < 0.5
                name = self.first if again else free.pop() if free else f"t{len(lines)}"
                lines.append(f"{name} = {text}")
                term.name = name
        final = self._text(last)
        lines += [f"return {final}"] if self.chance.random() < 0.7 else [f"{self.first} = {final}", f"return {self.first}"]
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
        names = LAYOUTS[self.layout]
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
        shape = {"rows": "features", "sequence": "features", "images": "channels, 1, 1"}[self.layout]
        makes = {False: f"torch.ones({shape}) + 0.1 * torch.randn({shape})", True: f"0.1 * torch.randn({shape})"}
        size = shape.partition(",")[0]
        constructor = [f"self.{name} = nn.Parameter({makes[second]})" for name, second in self.used.items()]
        inputs = [term.name for term in self._inputs]
        head = ["import torch", "import torch.nn as nn", *(["import torch.nn.functional as F"] if self.functional else [])]
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
        took = self.target.milliseconds(Work(8.0 * total * len(operators), launches=len(operators)), "float32")
        return Formula(source, operators, took, 4.0 * total * (len(inputs) + 2))

    @property
    def _inputs(self) -> list[Term]:
        return [term for term in self.terms if term.kind == "input"]


def _held(text: str) -> str:
    """In parentheses, where it would fall apart under a stronger operator."""
    if text.replace("_", "").replace(".", "").isalnum():
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if depth == 0 and (letter in "+*/ " or (letter == "-" and place == 0)):
            return f"({text})"
    return text


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
