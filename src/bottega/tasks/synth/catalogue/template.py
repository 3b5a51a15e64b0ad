"""Templates of modules as text: a header with name, layout, sizes and operators, and parts that `--` divides.

A text may ask for `@act[...]`, an activation around an expression, and for `@norm[...]`, a normalisation of so many channels: which ones they
are is drawn for each task.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ModuleTemplate:
    name: str
    layout: str
    sizes: dict[str, tuple[int, ...]]
    """Constants of the file, or further arguments of a block, with what they may be."""
    operators: tuple[str, ...]
    """Names of the catalogue that it is made of; `act` and `norm` stand for those that are drawn."""
    parts: tuple[str, ...]
    """Inputs of a network, constructor, `forward`."""

    @property
    def init(self) -> str:
        return self.parts[-2]

    @property
    def forward(self) -> str:
        return self.parts[-1]

    @property
    def inputs(self) -> list[tuple[str, str]]:
        return [(name, text) for name, _, text in (line.partition(" = ") for line in self.parts[0].splitlines())]

    @property
    def arguments(self) -> list[str]:
        """Sizes that the constructor takes."""
        return [name for name in self.sizes if re.search(rf"\b{name}\b", self.init)]

    @property
    def title(self) -> str:
        return self.name.title().replace("_", "") + "Block"


def templates(text: str) -> tuple[ModuleTemplate, ...]:
    return tuple(_template(section) for section in re.split(r"^# ", text, flags=re.M)[1:])


def _template(section: str) -> ModuleTemplate:
    header, _, rest = section.partition(":")
    operators, _, body = rest.lstrip().partition("\n")
    name, layout, *options = header.split()
    sizes = {key: tuple(map(int, values.split(","))) for key, _, values in (option.partition("=") for option in options)}
    counted = [word.partition("*") for word in operators.split()]
    names = tuple(word for word, _, times in counted for _ in range(int(times or 1)))
    return ModuleTemplate(name, layout, sizes, names, tuple(part.strip("\n") for part in body.split("\n--\n")))
