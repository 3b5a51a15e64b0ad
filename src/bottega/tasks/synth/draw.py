"""Random choices of sizes, shapes and input contents, distributed as people choose them, from one seeded generator."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

from bottega.tasks.synth.contents import CONTENTS, contents_for
from bottega.tasks.synth.costs import TimeTarget
from bottega.tasks.synth.value import Shape, Size, Value

T = TypeVar("T")

FIRST_LEAD = 8
LENGTH = re.compile(r"(\w+)(?::(\d+)-(\d+)|@(\d+)(?:x(\d+))?)?")
SHAPES: dict[str, tuple[tuple[str, int, int, bool], ...]] = {
    "vector": (),
    "rows": (("features", 48, 4096, False),),
    "matrix": (("cols", 64, 4096, False),),
    "sequence": (("seq_len", 16, 384, True), ("dim", 32, 512, False)),
    "ncl": (("channels", 4, 96, False), ("length", 64, 2048, True)),
    "nchw": (("channels", 3, 96, False), ("height", 12, 96, True), ("width", 12, 96, True)),
    "ncdhw": (("channels", 2, 32, False), ("depth", 5, 20, True), ("height", 8, 28, True), ("width", 8, 28, True)),
    "heads": (("num_heads", 2, 16, False), ("seq_len", 24, 256, True), ("head_dim", 16, 96, False)),
}
"""Lengths behind the first, with their ranges on a small processor, and whether they grow with the device."""
LEADS = {"vector": "size", "matrix": "rows"}
LARGEST_LEAD = {
    "vector": 1 << 28,
    "matrix": 1 << 16,
    "rows": 1 << 16,
    "ncl": 1024,
    "sequence": 1024,
    "nchw": 512,
    "ncdhw": 256,
    "heads": 128,
}
"""No batch of a hundred thousand images: what is missing then is made up by larger maps."""


class Draw:
    def __init__(self, rng: Random, target: TimeTarget, lead: int = FIRST_LEAD, shrink: float = 1.0, dtype: str = "float32"):
        self.rng = rng
        self.target = target
        self.lead = lead
        """The length that is scaled until the cost meets the aim: mostly the batch."""
        self.shrink = shrink
        self.dtype = dtype
        self.names: dict[str, int] = {}
        self.flavour = rng.choices(("power", "round", "odd"), (5, 3, 2))[0]

    @property
    def batch(self) -> int:
        return min(self.lead, LARGEST_LEAD["sequence"])

    def pick(self, options: Sequence[T]) -> T:
        return options[self.rng.randrange(len(options))]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        return self.rng.choices(options, weights)[0]

    def length(self, low: float, high: float) -> int:
        """Log-uniform, then rounded to what people write."""
        raw = math.exp(self.rng.uniform(math.log(low), math.log(max(high, low))))
        flavour = self.flavour if self.chance(0.7) else self.pick(("power", "round", "odd"))
        return max(int(low), min(int(max(high, low)), rounded(raw, flavour)))

    def size(self, name: str, low: float, high: float, multiple: int = 1) -> Size:
        value = self.length(low, high)
        return self.named(name, max(multiple, round(value / multiple) * multiple))

    def named(self, name: str, value: int) -> Size:
        """A length under this name, or under a similar one when the name is taken for another."""
        chosen, number = name, 2
        while self.names.get(chosen, value) != value:
            chosen, number = f"{name}{number}", number + 1
        self.names[chosen] = value
        return Size(value, chosen)

    def lengths(self, text: str, known: Mapping[str, int]) -> Shape:
        """`m@8 k:64-768`: at least 8 and otherwise the length that is scaled (`n@16x32` is 32 times that); drawn, unless known by its name."""
        found: list[int] = []
        for name, low, high, least, factor in LENGTH.findall(text):
            if name in known:
                found.append(known[name])
            elif least:
                found.append(self.named(name, max(int(least), int(factor or 1) * self.lead)))
            else:
                found.append(self.size(name, int(low), int(high) * self.shrink * self.target.sizes))
        return tuple(found)

    def shape(self, layout: str) -> Shape:
        lengths: list[int] = [self.named(LEADS.get(layout, "batch_size"), min(self.lead, LARGEST_LEAD[layout]))]
        square = self.chance(0.6)
        for name, low, high, grows in SHAPES[layout]:
            if name in ("width",) and square:
                lengths.append(self.named(name, int(lengths[-1])))
                continue
            grown = high * self.shrink * (self.target.sizes if grows else self.target.sizes**0.5)
            least = low * max(1.0, self.shrink)
            lengths.append(self.size(name, least, max(least, grown)))
        return tuple(lengths)

    def input(self, layout: str, sign: str = "any", contents: str | None = None) -> tuple[Value, str]:
        """An input tensor and the name of what it holds."""
        kind = contents or contents_for(sign, self.rng)
        found = CONTENTS[kind]
        return Value(self.shape(layout), layout, found.table(self.rng), self.dtype, found.sign, found.marks), kind


def rounded(value: float, flavour: str) -> int:
    if value < 4:
        return max(1, round(value))
    if flavour == "power":
        return int(2 ** round(math.log2(value)))
    if flavour == "odd":
        return max(3, int(value) | 1)
    step = int(10 ** max(0, math.floor(math.log10(value)) - 1) * (4 if value < 40 else 2 if value < 400 else 1))
    return max(step, round(value / step) * step)
