"""A chain: a layer, and a handful of operators of every kind behind it, as benchmarks of fused operators are written.

The catalogue's level 2 knows what is sensible: which norm follows which layer, which values may meet a logarithm. A stranger's chain does not
care, and whoever writes kernels for it must take every operator as it comes, along any dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

from bottega.tasks.synth.chain_layers import layer, twin
from bottega.tasks.synth.chain_scores import scores
from bottega.tasks.synth.chain_state import Chain, Shape
from bottega.tasks.synth.chain_steps import STEPS, activation, formula_norm, keep, loss, number, parameter, reduction
from bottega.tasks.synth.costs import OperatorCost, TimeTarget
from bottega.tasks.synth.draw import rounded

SIDES = {
    "cpu": {0: (64, 128, 256, 384, 512, 1000), 1: (64, 128, 256, 500), 2: (14, 16, 28, 32, 56), 3: (6, 8, 12, 16)},
    "cuda": {
        0: (128, 256, 500, 512, 768, 1024, 2048, 4096),
        1: (128, 256, 512, 1000, 2048),
        2: (28, 32, 56, 64, 96, 112, 128),
        3: (12, 16, 20, 24, 32),
    },
}
"""Features of a row, and sides of maps by their dimensions."""
CHANNELS = {"cpu": (3, 4, 8, 16, 24, 32), "cuda": (3, 8, 16, 24, 32, 48, 64, 96, 128)}
LENGTHS = {"cpu": (16, 32, 50, 64), "cuda": (64, 100, 128, 256, 512)}
FIRST = ("x", "x", "inp", "data", "features", "signal")


@dataclass(frozen=True)
class ChainTask:
    source: str
    operators: tuple[str, ...]
    milliseconds: float


def chain_task(chance: Random, target: TimeTarget, aim: float) -> ChainTask:
    """A module of about the time that is aimed at."""
    kind = chance.choices(("rows", "sequence", "maps", "scores"), (28, 15, 50, 7))[0]
    dims = chance.choices((1, 2, 3), (20, 55, 25))[0] if kind == "maps" else 0
    shape = _first_shape(chance, kind, dims, target.name)
    chain = Chain(chance, shape, dims)
    chain.inputs["x"] = shape
    chain.earlier["x_in"] = shape
    if kind == "scores":
        scores(chain)
        for step in chance.choices((activation, number, parameter, formula_norm, reduction), k=chance.choice((0, 0, 1, 2))):
            if len(chain.shape) > 1:
                step(chain)
        return _page(chain, target, aim)
    if chance.random() < 0.15:
        activation(chain)
    if chance.random() < 0.85:
        while not (twin(chain) if chance.random() < 0.1 else layer(chain)):
            pass
    for _ in range(chance.choices((1, 2, 3, 4, 5, 6), (2, 4, 5, 5, 3, 2))[0]):
        _next(chain)
        if chain.ended:
            break
    if not chain.ended and chance.random() < 0.15:
        loss(chain)
    elif chain.ended and chain.shape and chance.random() < 0.5:
        activation(chain)
    return _page(chain, target, aim)


def _first_shape(chance: Random, kind: str, dims: int, device: str) -> Shape:
    sides = SIDES[device][dims]
    if kind == "maps":
        square = chance.choice(sides)
        return (
            chance.choice(CHANNELS[device]),
            *(square if chance.random() < 0.7 else chance.choice(sides) for _ in range(dims)),
        )
    features = chance.choice(sides)
    if kind == "scores":
        heads = [chance.choice((4, 8, 12, 16))] if chance.random() < 0.4 else []
        return (*heads, chance.choice(LENGTHS[device]), chance.choice((32, 48, 64, 80, 96, 128)))
    return (features,) if kind == "rows" else (chance.choice(LENGTHS[device]), features)


def _next(chain: Chain) -> None:
    steps, weights = zip(*STEPS, strict=True)
    for _ in range(20):
        if chain.chance.choices(steps, weights)[0](chain):
            return
    keep(chain)


def _page(chain: Chain, target: TimeTarget, aim: float) -> ChainTask:
    """As a file, with as large a batch as meets the time."""
    chance = chain.chance
    each = target.milliseconds(OperatorCost(chain.moved, launches=0), "float32")
    each = max(each + 1e3 * chain.products / target.rates["conv"], 1e-9)
    held = chain.moved / 2 + 4.0 * sum(prod(shape) for shape in chain.inputs.values())  # every result once, and the inputs
    batch = min(aim / each, target.largest_bytes / held, 65536)
    batch = max(2, rounded(batch, chance.choice(("power", "power", "round", "odd"))))
    first = chance.choice(FIRST)
    names = {name: first if name == "x" else name for name in chain.inputs}
    body = ["x_in = x"] if any("x_in" in line for line in chain.lines) else []
    body = [*([f"x = {first}"] if first != "x" else []), *body, *chain.lines, "return x"]
    sizes = {
        name: ", ".join([*([] if name in chain.shared else ["batch_size"]), *map(str, shape)])
        for name, shape in chain.inputs.items()
    }
    drawn = ", ".join(chain.drawn.get(name, "torch.randn({size})").replace("{size}", size) for name, size in sizes.items())
    constructor = (
        ["def __init__(self):", "    super().__init__()", *(f"    {line}" for line in chain.made), ""] if chain.made else []
    )
    forward = [f"def forward(self, {', '.join(names.values())}):", *(f"    {line}" for line in body)]
    model = ["class Model(nn.Module):", *(f"    {line}".rstrip() for line in (*constructor, *forward))]
    source = "\n\n\n".join(
        (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F",
            "\n".join(model),
            f"batch_size = {batch}",
            f"def get_inputs():\n    return [{drawn}]",
            "def get_init_inputs():\n    return []",
        )
    )
    milliseconds = batch * each + target.launch_ms * len(chain.operators)
    return ChainTask(source + "\n", tuple(sorted(chain.operators)), milliseconds)
