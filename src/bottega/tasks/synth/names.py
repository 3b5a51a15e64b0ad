"""Chooses identifiers for one file: a usual name for each thing, and no name twice."""

from __future__ import annotations

import keyword
from random import Random

from bottega.tasks.synth.style import ATTRIBUTES, SYNONYMS

TAKEN = frozenset({"self", "torch", "nn", "F", "math", "Model", "range", "float", "int", "bool", "tuple", "super", "_"})


class NamePool:
    def __init__(self, rng: Random):
        self.rng = rng
        self.chosen: dict[str, str] = {}
        self.locals: set[str] = set(TAKEN)
        """Arguments of the constructor, and constants of the module."""
        self.attributes: set[str] = {"forward", "train", "eval", "type", "half", "float", "T"}
        self.variables: set[str] = set(TAKEN)
        """Within `forward`."""

    def of(self, key: str) -> str:
        """The name of a size or parameter, the same whenever it is asked for."""
        if key not in self.chosen:
            base = key.rstrip("0123456789") if key.rstrip("0123456789") in SYNONYMS else key
            wanted = self.rng.choice(SYNONYMS.get(base, (base,)))
            self.chosen[key] = self._free(wanted, self.locals)
        return self.chosen[key]

    def attribute(self, hint: str) -> str:
        return self._free(self.rng.choice(ATTRIBUTES.get(hint, (hint,))), self.attributes)

    def kept(self, name: str) -> str:
        """An attribute that only keeps an argument: it has the argument's name."""
        return self._free(name, self.attributes)

    def variable(self, hint: str) -> str:
        return self._free(hint, self.variables)

    @staticmethod
    def _free(wanted: str, taken: set[str]) -> str:
        name, number = wanted, 2
        while name in taken or keyword.iskeyword(name):
            name, number = f"{wanted}{'_' if wanted[-1].isdigit() else ''}{number}", number + 1
        taken.add(name)
        return name
