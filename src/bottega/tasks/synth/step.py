"""One step of a module while it is drawn: the words of a form become sizes, numbers, layers, parameters and further inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from random import Random

from bottega.tasks.synth.catalogue.table import Form
from bottega.tasks.synth.catalogue.words import ATTRIBUTES, INPUTS, PARAMETERS, TWINS, VALUES

Shape = tuple[int, ...]
BATCH = 37
"""While the steps are tried: no other length."""
_WORD = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class ModuleState:
    """What has been written so far."""

    shape: Shape
    """Of one sample: without the batch."""
    maps: bool
    """Channels come first; otherwise features come last."""
    lines: tuple[str, ...] = ()
    """Of `forward`, with `x` for the current value."""
    made: dict[str, str] = field(default_factory=dict)
    """Attributes, with the text that makes each in the constructor."""
    inputs: dict[str, str] = field(default_factory=dict)
    """How each is drawn."""
    earlier: dict[str, Shape] = field(default_factory=dict)
    """Values that have a name of their own, and may come back."""


class StepDraft:
    """Nothing of it counts before it has run."""

    def __init__(self, chance: Random, state: ModuleState) -> None:
        self.chance, self.state = chance, state
        self.made: dict[str, str] = {}
        self.inputs: dict[str, str] = {}
        self.layers: dict[str, str] = {}
        self.words: dict[str, str] = {}

    def filled(self, form: Form) -> list[str]:
        self.layers = dict(form.made)
        lines = list(form.lines)
        if re.search(r"\bA\b", lines[-1]):
            lines[-1] = re.sub(r"\b(A|B)\b", r"{@\1}(x)", lines[-1])
            twin = self._text(TWINS[0] if not self.state.maps else self.chance.choice(TWINS[1:]))
            self.layers = {"A": twin, "B": twin}
        return [self._text(line) for line in lines]

    def _text(self, template: str) -> str:
        return _WORD.sub(lambda match: self._word(match[1]), template)

    def _word(self, name: str) -> str:
        """The same word is the same thing within a step."""
        if name not in self.words:
            self.words[name] = self._drawn(name)
        return self.words[name]

    def _drawn(self, name: str) -> str:
        shape, maps, rank = self.state.shape, self.state.maps, len(self.state.shape)
        channels, places = (shape[0], rank - 1) if maps else (shape[-1] if shape else 0, 0)
        if "/" in name:
            return self.chance.choice(name.split("/"))
        if name in VALUES:
            return self._text(self.chance.choice(VALUES[name]))
        if name in PARAMETERS:
            names, text = PARAMETERS[name]
            return self._attribute(names, self._text(text))
        if name in INPUTS:
            return self._input(name)
        if name.startswith("@"):
            return self._layer(name[1:])
        match name:
            case "C":
                return str(channels)
            case "F":
                return str(shape[-1])
            case "S":
                return str(shape[-2])
            case "nd":
                return str(max(1, places))
            case "sizes":
                return ", ".join(map(str, shape))
            case "dim":
                return str(self.chance.choice((1 if maps else rank, 1 if maps else rank, rank, self.chance.randint(1, rank))))
            case "back":  # the same dimension, now and then counted from the end
                dim = int(self._word("dim"))
                return str(dim - rank - 1 if self.chance.random() < 0.4 else dim)
            case "half":
                return str(shape[int(self._word("dim")) - 1] // 2)
            case "half_heads":
                return str(shape[0] // 2)
            case "places":
                dims = range(2, rank + 1) if self.chance.random() < 0.7 else range(1, rank + 1)
                return str(tuple(dims) if self.chance.random() < 0.5 else list(dims))
            case "ones":
                return ", 1" * places
            case "nones":
                return ", None" * places
            case "divisor":
                return str(self.chance.choice([number for number in (1, 2, 4, 8, 16, 32) if channels % number == 0]))
            case "lead":
                return "".join(f"{size}, " for size in shape[:-2])
            case "last":
                return ", ".join(map(str, shape[-2:]))
            case "some":
                return ", ".join(map(str, self._some()))
        raise KeyError(f"{name}: no word of a form")

    def _some(self) -> list[int]:
        """A shape that some dimensions of a sample have, as people write it: with or without single ones in front."""
        kept = [self.chance.random() < 0.5 for _ in self.state.shape]
        kept[self.chance.randrange(len(kept))] = True
        sizes = [size if keep else 1 for size, keep in zip(self.state.shape, kept)]
        if prod(sizes) > 4_000_000:
            sizes = [*[1] * (len(sizes) - 1), self.state.shape[-1]]
        while len(sizes) > 1 and sizes[0] == 1 and self.chance.random() < 0.6:
            sizes.pop(0)
        return [1, *sizes] if self.chance.random() < 0.4 else sizes

    def _layer(self, hint: str) -> str:
        text = self._text(self.layers[hint])
        by_class = next(names for part, names in ATTRIBUTES.items() if part in text.partition("(")[0].lower())
        return self._attribute(by_class if hint in ("layer", "A", "B") else (hint,), text)

    def _attribute(self, names: tuple[str, ...], text: str) -> str:
        name = self.chance.choice(names)
        while name in self.state.made or name in self.made:
            name = f"{name.rstrip('0123456789')}{self.chance.randint(2, 99)}"
        self.made[name] = text
        return f"self.{name}"

    def _input(self, word: str) -> str:
        """Another input; `other` is mostly something from before."""
        fitting = [name for name, shape in self.state.earlier.items() if shape == self.state.shape]
        if word == "other" and fitting and self.chance.random() < 0.85:
            return self.chance.choice(fitting)
        names, text = INPUTS[word]
        taken = {*self.state.inputs, *self.state.earlier, *self.inputs}
        if len(taken) > 3:
            raise ValueError("enough inputs")
        free = [name for name in names if name not in taken]
        if not free:
            raise ValueError("no name is left")
        name = self.chance.choice(free)
        self.inputs[name] = re.sub(r"(randn?)\(batch_size, \)", r"\1(batch_size)", self._text(text))
        return name
