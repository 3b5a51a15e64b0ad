"""A module, step by step: an operator alone, a layer with operators of every kind behind it, or a formula of primitive ones.

A step is a form of the catalogue. It is run on torch's meta device as soon as it is written; where it does not fit, another is drawn. So the
text is the only definition of an operator: nothing else says which shapes it takes and gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from types import SimpleNamespace
from typing import Any

from bottega.tasks.synth.catalogue import CATALOGUE, KINDS
from bottega.tasks.synth.catalogue.table import Operator
from bottega.tasks.synth.catalogue.words import ALONE_STARTS, CHAIN_STARTS, CONTENTS, SIZES, STARTS, USUAL_CONTENTS, VALUES
from bottega.tasks.synth.step import BATCH, ModuleState, StepDraft
from bottega.tasks.synth.style import Style

TRIES = 60
LARGEST = 30_000_000
"""Elements of one sample, and of a parameter."""
GEMM = ("convolutions", "matmul")
LOSSES = ("loss", "class_loss", "triplet_loss")
STEPS = tuple(name for name, kind in KINDS.items() if kind.chain and kind.family not in ("losses", "attention"))
FORMULA = ("activation", "function", "arithmetic", "parameter", "residual", "keep", "formula_norm", "softmax", "gate")
STRUCTURES = {"cat": "concatenation", "twin": "branches", "cut": "gate", "gate": "gate", "keep": "residual"}
_REFUSALS = (RuntimeError, ValueError, IndexError, AssertionError, TypeError)


@dataclass(frozen=True)
class ModuleDraft:
    """A module that runs: what is left is how large its batch is and how its file is written."""

    state: ModuleState
    operators: tuple[str, ...]
    start: str

    @property
    def structure(self) -> str:
        kinds = [CATALOGUE[name].kind for name in self.operators]
        usual = "inputs" if len(self.state.inputs) > 1 else "chain"
        return "single" if len(kinds) == 1 else next((STRUCTURES[kind] for kind in kinds if kind in STRUCTURES), usual)


def single(chance: Random, style: Style, device: str, families: Sequence[str]) -> ModuleDraft | None:
    """Level 1: an operator and nothing else."""
    kinds = [kind for kind in KINDS.values() if kind.alone and (not families or kind.family in families)]
    operators = chance.choices(kinds, [kind.alone for kind in kinds])[0].operators
    operator = chance.choices(operators, [one.often for one in operators])[0]
    for _ in range(TRIES):
        start = chance.choice(operator.starts) if operator.starts else _drawn(chance, ALONE_STARTS)
        module = _Module(chance, style, start, device, operator.contents)
        if module.step(operator, alone=True):
            return module.draft()
    return None


def chain(chance: Random, style: Style, device: str, families: Sequence[str]) -> ModuleDraft | None:
    """Level 2: mostly a product or convolution and a handful of operators behind it; what was asked for comes first."""
    start = _drawn(chance, CHAIN_STARTS)
    module = _Module(chance, style, start, device)
    if start in ("scores", "heads") and not families:
        for kind, share in {"scores": 1.0, "mask": 0.65, "weights": 0.85, "weighted": 0.35}.items():
            module.steps((kind,), int(chance.random() < share))
        module.steps(("activation", "arithmetic", "parameter", "formula_norm", "reduction"), chance.choice((0, 0, 1, 2)))
        return module.draft()
    if families:
        module.steps([name for name, kind in KINDS.items() if kind.chain and kind.family in families], 1)
    else:
        module.steps(("activation",), int(chance.random() < 0.15))
        layers = ("conv", "conv_transpose") if module.state.maps else ("linear", "matmul", "along_sequence")
        module.steps(("twin",) if chance.random() < 0.1 else layers, int(chance.random() < 0.85))
    module.steps(STEPS, chance.choices((1, 2, 3, 4, 5, 6), (2, 4, 5, 5, 3, 2))[0])
    if not families:
        module.steps(LOSSES, int(chance.random() < 0.15))
    draft = module.draft()
    found = {CATALOGUE[name].family for name in draft.operators}
    return draft if len(draft.operators) > 1 and (not families or found & set(families)) else None


def formula(chance: Random, style: Style, device: str, families: Sequence[str]) -> ModuleDraft | None:
    """Of primitive operators, many of them inside the next: nothing in it can be recognised by name."""
    module = _Module(chance, style, chance.choices(("rows", "sequence", "maps2"), (6, 2, 3))[0], device, folded=0.5)
    module.steps(FORMULA, chance.randint(2, 7))
    return module.draft() if len(module.operators) > 1 else None


class _Module:
    def __init__(
        self, chance: Random, style: Style, start: str, device: str, contents: str = "", folded: float | None = None
    ) -> None:
        import torch

        self.torch, self.chance, self.style, self.start = torch, chance, style, start
        self.folded = style.inline if folded is None else folded
        self.shape = first_shape(chance, start, device)
        self.operators: list[str] = []
        lengths = ", ".join(["batch_size", *map(str, self.shape)])
        drawn = CONTENTS[contents or _drawn(chance, USUAL_CONTENTS)].format(shape=lengths)
        if start == "tokens":
            self.vocabulary = chance.choice(VALUES["vocabulary"])
            drawn = f"torch.randint(0, {self.vocabulary}, ({lengths}))"
        self.state = ModuleState(self.shape, start.startswith("maps"), inputs={"x": drawn})
        self.scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
        self.scope |= {"batch_size": BATCH, "self": SimpleNamespace()}
        with torch.device("meta"):
            self.scope["x"] = eval(drawn, self.scope)

    def draft(self) -> ModuleDraft:
        return ModuleDraft(self.state, tuple(self.operators), self.start)

    def steps(self, kinds: Sequence[str], count: int) -> None:
        """So many more of these kinds."""
        weights = [KINDS[kind].chain for kind in kinds]
        for _ in range(count):
            for _ in range(TRIES):
                if prod(self.state.shape) <= 1:
                    break
                operators = KINDS[self.chance.choices(kinds, weights)[0]].operators
                operator = self.chance.choices(operators, [one.often for one in operators])[0]
                if not operator.contents and self.step(operator):
                    break

    def step(self, operator: Operator, alone: bool = False) -> bool:
        draft = StepDraft(self.chance, self.state)
        if self.start == "tokens":
            draft.words["vocabulary"] = self.vocabulary
        form = self.chance.choices(operator.forms, [self.style.forms[form.kind] for form in operator.forms])[0]
        try:
            *before, last = draft.filled(form)
            scope, shape = self._run(draft, before, last, alone)
        except _REFUSALS:
            return False
        state = self.state
        maps = state.maps and len(shape) > 1 and (len(shape) == len(state.shape) or self.chance.random() < 0.5)
        earlier = state.earlier | dict.fromkeys(re.findall(r"^(\w+) = x$", "\n".join(before), re.M), state.shape)
        lines = self._lines(before, last, operator)
        self.state = ModuleState(shape, maps, lines, state.made | draft.made, state.inputs | draft.inputs, earlier)
        self.scope = scope
        self.operators.append(operator.name)
        return True

    def _run(self, draft: StepDraft, before: list[str], last: str, alone: bool) -> tuple[dict[str, Any], tuple[int, ...]]:
        from bottega.tasks.synth.cost_mode import counting

        scope, torch = dict(self.scope), self.torch
        with torch.device("meta"), torch.no_grad(), counting():  # which knows a recurrent layer's result without its steps
            made = {name: eval(text.removeprefix("buffer:"), scope) for name, text in draft.made.items()}
            scope["self"] = SimpleNamespace(**vars(scope["self"]), **made)
            scope |= {name: eval(text, scope) for name, text in draft.inputs.items()}
            exec("\n".join([*before, f"x = {last}"]), scope)
        x = scope["x"]
        parameters = (one for each in made.values() for one in (each.parameters() if hasattr(each, "parameters") else (each,)))
        largest = max([x.numel() // BATCH, *(one.numel() for one in parameters)])
        fits = x.is_floating_point() and (not x.dim() or x.shape[0] == BATCH)
        if largest > LARGEST or not x.numel() or not (fits or alone):
            raise ValueError("not the result of a step")
        return scope, tuple(x.shape[1:])

    def _lines(self, before: list[str], last: str, operator: Operator) -> tuple[str, ...]:
        """With the new ones; now and then a step stands inside the next."""
        *others, inner = self.state.lines or ("",)
        once = not before and len(re.findall(r"\bx\b", last)) == 1
        if once and inner.startswith("x = ") and len(inner) < 72 and self.chance.random() < self.folded:
            inner = inner.removeprefix("x = ")
            held = inner if re.fullmatch(r"[\w.]+\([^()]*\)", inner) else f"({inner})"
            return (*others, "x = " + re.sub(r"\bx\b", lambda _: held, last))
        said = self.style.comments == "every" or (self.style.comments == "some" and self.chance.random() < 0.5)
        comment = [f"# {operator.name.replace('_', ' ')}"] if said else []
        return (*self.state.lines, *comment, *before, f"x = {last}")


def first_shape(chance: Random, start: str, device: str) -> tuple[int, ...]:
    sizes = SIZES[device] | SIZES["any"]
    found: dict[str, int] = {}
    same = chance.random() < 0.7 or start == "squares"
    return tuple(
        found[name] if same and name in found else found.setdefault(name, chance.choice(sizes[name])) for name in STARTS[start]
    )


def _drawn(chance: Random, weights: dict[str, float]) -> str:
    return chance.choices(tuple(weights), tuple(weights.values()))[0]
