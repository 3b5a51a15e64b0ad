"""The state of a chain while it is generated: its lines, the constructor's attributes, the inputs, and the current shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

Shape = tuple[int, ...]
"""Of one sample: without the batch."""
SECONDS = ("y", "target", "other", "residual", "labels", "reference", "skip", "guide")
SHARED = ("mask", "positions", "table", "prior", "window")


@dataclass
class Chain:
    """What has been written so far."""

    chance: Random
    shape: Shape
    maps: int
    """Dimensions of a map behind its channels; 0 for rows and sequences, whose features come last."""
    lines: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    inputs: dict[str, Shape] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    """How inputs are drawn, where it is not from a normal distribution; `{size}` stands for the batch and the shape."""
    shared: set[str] = field(default_factory=set)
    """Inputs that are one for all samples: they have no batch."""
    earlier: dict[str, Shape] = field(default_factory=dict)
    """Values that have a name of their own, and may come back."""
    operators: list[str] = field(default_factory=list)
    moved: float = 0.0
    """Bytes of one sample."""
    products: float = 0.0
    """Operations of one sample in products and convolutions."""
    ended: bool = False
    taken: set[str] = field(default_factory=set)

    def write(self, operator: str, text: str, shape: Shape | None = None) -> None:
        """One more line; what flows is always x."""
        self.lines.append(f"x = {self.filled(text)}")
        self.moved += 4.0 * prod(self.shape)
        self.shape = self.shape if shape is None else shape
        self.moved += 4.0 * prod(self.shape)
        self.operators.append(operator)

    def filled(self, text: str) -> str:
        choose = self.chance.choice
        drawn = {
            "{number}": choose(("0.5", "2.0", "1.5", "0.7", "3.0", "0.25", "1.0", "4.0", "0.9")),
            "{slope}": choose(("0.01", "0.1", "0.2", "0.05", "0.3", "0.5")),
            "{small}": choose(("1e-5", "1e-6", "1e-8", "1e-3")),
            "{power}": choose(("2", "3", "2.0")),
        }
        for mark, value in drawn.items():
            text = text.replace(mark, value)
        return text.replace("{x}", "x")

    def attribute(self, names: tuple[str, ...], text: str) -> str:
        """A layer or a parameter under a name that is free."""
        name = self.chance.choice(names)
        while name in self.taken:
            name = f"{name.rstrip('0123456789')}{self.chance.randint(2, 9)}"
        self.taken.add(name)
        self.made.append(f"self.{name} = {text}")
        return f"self.{name}"

    def second(self, shape: Shape, is_shared: bool = False, names: tuple[str, ...] = (), drawn: str = "") -> str:
        """Another input, of this shape for each sample or for all."""
        names = names or (SHARED if is_shared else SECONDS)
        name = next(name for name in self.chance.sample(names, len(names)) if name not in self.inputs)
        self.inputs[name] = shape
        if drawn:
            self.drawn[name] = drawn
        if is_shared:
            self.shared.add(name)
        return name

    @property
    def channels(self) -> int:
        return self.shape[0] if self.maps else self.shape[-1]

    @property
    def channel_dim(self) -> int:
        return 1 if self.maps else len(self.shape)

    def flag(self, probability: float) -> bool:
        return self.chance.random() < probability
