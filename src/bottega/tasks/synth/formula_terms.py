"""The terms of a formula: primitive operators, drawn one after the other over what came before, with values kept within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

ANY, POSITIVE, UNIT = "any", "positive", "unit"
"""What is known of a value: nothing; not negative; between 0 and 1."""
LAYOUTS = {
    "rows": ("rows", "features"),
    "sequence": ("batch", "length", "features"),
    "images": ("batch", "channels", "height", "width"),
}
INPUTS = ("x", "x", "x", "inp", "data", "h", "features", "z", "tokens", "u")
SECOND = ("y", "other", "residual", "b", "skip", "mask_values")
PARAMETERS = (("scale", "shift"), ("weight", "bias"), ("gamma", "beta"), ("gain", "offset"), ("alpha", "delta"))


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


class TermList:
    """What is drawn for one formula, and how it likes to be written."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
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

    def drawn(self) -> Term:
        """The last term, of which all others are a part."""
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
        return last

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
            return self._made(name, lambda text: f"{held(text)}.{name}({options})", term, knows=knows, simple=True)
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
            lambda: self._made("neg", lambda text: f"-{held(text)}", term),
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
                lambda: self._made("mul", lambda text: f"{held(text)} * {number}", term, knows=kept),
                lambda: self._made("mul", lambda text: f"{number} * {held(text)}", term, knows=kept),
                lambda: self._made("add", lambda text: f"{text} + {number}", term, knows=kept),
                lambda: self._made("sub", lambda text: f"{text} - {number}", term),
                lambda: self._made("sub", lambda text: f"{number} - {held(text)}", term),
                lambda: self._made("div", lambda text: f"{held(text)} / {number}", term, knows=kept),
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
            lambda text, weight: f"{text if second else held(text)} {sign} {weight}",
            term, parameter,
        )  # fmt: skip

    def _joined(self, one: Term, two: Term) -> Term:
        kept = POSITIVE if ANY not in (one.knows, two.knows) else ANY
        ways = [
            lambda: self._made("add", lambda a, b: f"{a} + {b}", one, two, knows=kept),
            lambda: self._made("sub", lambda a, b: f"{a} - {held(b)}", one, two),
            lambda: self._made("mul", lambda a, b: f"{held(a)} * {held(b)}", one, two, knows=kept),
            lambda: self._made("maximum", lambda a, b: f"torch.maximum({a}, {b})", one, two, knows=kept, simple=True),
            lambda: self._made("minimum", lambda a, b: f"torch.minimum({a}, {b})", one, two, knows=kept, simple=True),
        ]
        if two.knows != ANY:
            ways.append(lambda: self._made("div", lambda a, b: f"{held(a)} / ({b} + 1.0)", one, two, knows=one.knows))
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
        mean = self._made("mean", lambda text: f"{held(text)}.mean({axis})", term, simple=True)
        mean.whole = False

        def centred() -> Term:
            return self._made("sub", lambda text, middle: f"{text} - {middle}", term, mean)

        def root_mean_square() -> Term:
            return self._made(
                "div",
                lambda text: f"{held(text)} / torch.sqrt(({held(text)} * {held(text)}).mean({axis}) + {epsilon})",
                term,
            )

        def power_norm() -> Term:
            return self._made(
                "div", lambda text: f"{held(text)} * torch.rsqrt({held(text)}.pow(2).mean({axis}) + {epsilon})", term
            )

        def length_one() -> Term:
            return self._made("div", lambda text: f"{held(text)} / ({held(text)}.pow(2).sum({axis}).sqrt() + {epsilon})", term)

        def standard() -> Term:
            spread = self._made(
                "var", lambda text: f"{held(text)}.var({axis}, unbiased=False)", term, simple=True, knows=POSITIVE
            )
            spread.whole = False
            return self._made(
                "div", lambda text, middle, var: f"({text} - {middle}) / torch.sqrt({var} + {epsilon})", term, mean, spread
            )

        def softmax() -> Term:
            top = self._made("amax", lambda text: f"{held(text)}.amax({axis})", term, simple=True)
            top.whole = False
            powers = self._made("exp", lambda text, most: f"torch.exp({text} - {most})", term, top, knows=UNIT, simple=True)
            self.terms.append(powers)
            return self._made("div", lambda text: f"{held(text)} / {held(text)}.sum({axis})", powers, knows=UNIT)

        def gated() -> Term:
            return self._made("mul", lambda text: f"{held(text)} * torch.sigmoid({text})", term)

        chosen = self.chance.choice((centred, root_mean_square, power_norm, length_one, standard, softmax, gated, gated))()
        if mean not in chosen.operands:
            term.uses -= 1
        return chosen


def held(text: str) -> str:
    """In parentheses, where it would fall apart under a stronger operator."""
    if text.replace("_", "").replace(".", "").isalnum():
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if depth == 0 and (letter in "+*/ " or (letter == "-" and place == 0)):
            return f"({text})"
    return text
