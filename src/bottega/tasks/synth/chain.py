"""A chain: a layer, and a handful of operators of every kind behind it, as benchmarks of fused operators are written.

The catalogue's level 2 knows what is sensible: which norm follows which layer, which values may meet a logarithm. A stranger's chain does not
care, and whoever writes kernels for it must take every operator as it comes, along any dimension. A step is text that is run on torch's meta
device as soon as it is written: where it does not fit, another is drawn. A formula is a chain of primitive operators, one inside the other:
nothing in it can be recognised by name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from math import prod
from random import Random
from types import SimpleNamespace
from typing import Any

from bottega.tasks.synth.chain_step import BATCH, ChainState, StepDraft
from bottega.tasks.synth.chain_templates import FIRST, FORMULA, LAYERS, LOSSES, MAP_LAYERS, SIZES, STARTS, STEPS, TEMPLATES
from bottega.tasks.synth.costs import TimeTarget
from bottega.tasks.synth.draw import rounded
from bottega.tasks.synth.measure import source_costs

TRIES = 60
LARGEST = 30_000_000
"""Elements of one sample, and of a parameter."""
_REFUSALS = (RuntimeError, ValueError, IndexError, AssertionError)


@dataclass(frozen=True)
class ChainTask:
    source: str
    operators: tuple[str, ...]
    milliseconds: float


def chain_task(chance: Random, target: TimeTarget, aim: float) -> ChainTask:
    """A module of about the time that is aimed at."""
    start = chance.choices(tuple(STARTS), tuple(STARTS.values()))[0]
    chain = _Chain(chance, start, target.name)
    if start == "scores":
        for kind, share in {"scores": 1.0, "mask": 0.65, "softmax": 0.85, "weighted": 0.35}.items():
            chain.steps((kind,), int(chance.random() < share))
        chain.steps(("activation", "arithmetic", "parameter", "formula_norm", "reduction"), chance.choice((0, 0, 1, 2)))
    else:
        chain.steps(("activation",), int(chance.random() < 0.15))
        layers = ("twin",) if chance.random() < 0.1 else MAP_LAYERS if chain.state.maps else LAYERS
        chain.steps(layers, int(chance.random() < 0.85))
        chain.steps(STEPS, chance.choices((1, 2, 3, 4, 5, 6), (2, 4, 5, 5, 3, 2))[0])
        chain.steps(LOSSES, int(chance.random() < 0.15))
    return chain.task(target, aim)


def formula(chance: Random, target: TimeTarget, aim: float) -> ChainTask:
    """The same of primitive operators, many of them inside the next."""
    chain = _Chain(chance, chance.choices(("rows", "sequence", "maps2"), (6, 2, 3))[0], target.name, folded=0.5)
    chain.steps(FORMULA, chance.randint(2, 7))
    return chain.task(target, aim)


class _Chain:
    def __init__(self, chance: Random, start: str, device: str, folded: float = 0.0) -> None:
        import torch

        self.torch, self.chance, self.folded = torch, chance, folded
        shape, maps = _first_shape(chance, start, device), start.startswith("maps")
        self.state = ChainState(shape, maps, inputs={"x": f"torch.randn(batch_size, {', '.join(map(str, shape))})"})
        self.scope: dict[str, Any] = {
            "torch": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "math": math,
            "batch_size": BATCH,
        }
        self.scope |= {"self": SimpleNamespace(), "x": torch.empty((BATCH, *shape), device="meta")}
        self.first = chance.choice(FIRST)
        self.operators: list[str] = []

    def steps(self, kinds: tuple[str, ...], count: int) -> None:
        """So many more of these kinds."""
        weights = [TEMPLATES[kind][0] for kind in kinds]
        for _ in range(count):
            for _ in range(TRIES):
                if prod(self.state.shape) <= 1 or self._step(self.chance.choices(kinds, weights)[0]):
                    break

    def _step(self, kind: str) -> bool:
        draft = StepDraft(self.chance, self.state)
        template = self.chance.choice(TEMPLATES[kind][1])
        try:
            *before, last = draft.filled(template).splitlines()
            scope, shape = self._run(draft, before, last)
        except _REFUSALS:
            return False
        state = self.state
        maps = state.maps and len(shape) > 1 and (len(shape) == len(state.shape) or self.chance.random() < 0.5)
        made = (*state.made, *(f"self.{name} = {text}" for name, text in draft.made.items()))
        earlier = state.earlier | dict.fromkeys(re.findall(r"^(\w+) = x$", "\n".join(before), re.M), state.shape)
        self.state = ChainState(shape, maps, self._lines(before, last), made, state.inputs | draft.inputs, earlier)
        self.scope = scope
        function = re.search(r"(?:torch|F)\.(\w+)\(", template)
        self.operators.append(function[1] if function and kind == "activation" else kind)
        return True

    def _run(self, draft: StepDraft, before: list[str], last: str) -> tuple[dict[str, Any], tuple[int, ...]]:
        scope, torch = dict(self.scope), self.torch
        with torch.device("meta"), torch.no_grad():
            made = {name: eval(text, scope) for name, text in draft.made.items()}
            scope["self"] = SimpleNamespace(**vars(scope["self"]), **made)
            scope |= {name: eval(text, scope) for name, text in draft.inputs.items()}
            exec("\n".join([*before, f"x = {last}"]), scope)
        x = scope["x"]
        parameters = (one for each in made.values() for one in (each.parameters() if hasattr(each, "parameters") else (each,)))
        largest = max([x.numel() // BATCH, *(one.numel() for one in parameters)])
        if not x.is_floating_point() or (x.dim() and x.shape[0] != BATCH) or largest > LARGEST:
            raise ValueError("not the result of a step")
        return scope, tuple(x.shape[1:])

    def _lines(self, before: list[str], last: str) -> tuple[str, ...]:
        """With the new ones; now and then a step stands inside the next."""
        *others, inner = self.state.lines or ("",)
        once = not before and len(re.findall(r"\bx\b", last)) == 1
        if once and inner.startswith("x = ") and self.chance.random() < self.folded:
            inner = inner.removeprefix("x = ")
            held = inner if re.fullmatch(r"[\w.]+\([^()]*\)", inner) else f"({inner})"
            return (*others, "x = " + re.sub(r"\bx\b", lambda _: held, last))
        return (*self.state.lines, *before, f"x = {last}")

    def task(self, target: TimeTarget, aim: float) -> ChainTask:
        """As a file, with as large a batch as meets the time."""
        costs = source_costs(self._source(BATCH))
        fixed = target.launch_ms * len(costs)
        each = max((target.milliseconds(costs, "float32") - fixed) / BATCH, 1e-9)
        held = sum(one.bytes for one in costs) / BATCH / 2
        batch = min(max(aim - fixed, 0.2 * aim) / each, target.largest_bytes / held, 65536)
        batch = max(2, rounded(batch, self.chance.choice(("power", "power", "round", "odd"))))
        return ChainTask(self._source(batch), tuple(sorted(self.operators)), fixed + batch * each)

    def _source(self, batch: int) -> str:
        state = self.state
        constructor = ["def __init__(self):", "    super().__init__()", *(f"    {line}" for line in state.made), ""]
        names = [self.first if name == "x" else name for name in state.inputs]
        body = [*([f"x = {self.first}"] if self.first != "x" else ()), *state.lines, "return x"]
        forward = [f"def forward(self, {', '.join(names)}):", *(f"    {line}" for line in body)]
        model = [f"    {line}".rstrip() for line in (*(constructor if state.made else ()), *forward)]
        return "\n\n\n".join(
            (
                "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F",
                "\n".join(["class Model(nn.Module):", *model]),
                f"batch_size = {batch}",
                f"def get_inputs():\n    return [{', '.join(state.inputs.values())}]",
                "def get_init_inputs():\n    return []\n",
            )
        )


def _first_shape(chance: Random, start: str, device: str) -> tuple[int, ...]:
    sizes = SIZES[device]
    if start.startswith("maps"):
        side = chance.choice(sizes[start])
        sides = (side if chance.random() < 0.7 else chance.choice(sizes[start]) for _ in range(int(start[-1])))
        return (chance.choice(sizes["channels"]), *sides)
    if start == "scores":
        heads = [chance.choice((4, 8, 12, 16))] if chance.random() < 0.4 else []
        return (*heads, chance.choice(sizes["length"]), chance.choice((32, 48, 64, 80, 96, 128)))
    features = chance.choice(sizes["features"])
    return (features,) if start == "rows" else (chance.choice(sizes["length"]), features)
