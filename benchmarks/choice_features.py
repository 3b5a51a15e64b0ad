"""A small network in place of the language model: it reads words and numbers of prompts and options as features. It learns in seconds on a CPU, so
that it shows what the sweep's table can teach before a GPU is spent on it: `--model features --device cpu --rates 1e-3,3e-3`.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from functools import cache

import torch
from choice_learning import Chooser
from choice_sweep import Row
from torch import Tensor

FEATURES = "features"
WORDS, NUMBERS, WIDTH = 160, 48, 64
_NUMBER = re.compile(r"([a-z_]+)[ =](2\^)?\(?(\d[\d, ]*)|([\d.]+)x\b", re.I)
_WORD = re.compile(r"[a-z_]+\w*", re.I)


class FeatureChooser(Chooser):
    def __init__(self, device: str) -> None:
        self.device = device
        width = 2 * (WORDS + 2 * NUMBERS)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(width, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()
        ).to(device)
        self.head = torch.nn.Linear(WIDTH, 1, bias=False, device=device)

    def reset(self) -> None:
        """Begun anew, by the seed."""
        for layer in self.model[::2]:
            layer.reset_parameters()
        torch.nn.init.zeros_(self.head.weight)

    def _scores(self, rows: Sequence[Row]) -> list[Tensor]:
        found = [self._features(row) for row in rows]
        return list(self.head(self.model(torch.cat(found)))[:, 0].split([len(one) for one in found]))

    def _features(self, row: Row) -> Tensor:
        if "features" not in row:
            prompt = features(row["prompt"])
            row["features"] = torch.tensor([prompt + features(option) for option in row["options"]], device=self.device)
        return row["features"]  # type: ignore[no-any-return]


@cache
def features(text: str) -> list[float]:
    """Which words there are, and the logs of the numbers behind a name: `tile=(64, 32)`, `columns 2^6`, `1.14x`."""
    words, known, values = [0.0] * WORDS, [0.0] * NUMBERS, [0.0] * NUMBERS
    for word in _WORD.findall(text):
        words[_slot(word, WORDS)] = 1.0
    factors = 0
    for name, power, numbers, factor in _NUMBER.findall(text):
        for place, number in enumerate(re.findall(r"\d+", numbers) or [factor]):
            slot = _slot(f"{name} {place}" if name else f"factor {factors}", NUMBERS)
            known[slot] = 1.0
            values[slot] = 5 * math.log(max(float(number), 0.01)) if factor else _log(float(number), bool(power)) / 4 - 1
        factors += bool(factor)
    return [*words, *known, *values]


def _log(number: float, power: bool) -> float:
    return number if power else math.log2(max(number, 1.0))


def _slot(name: str, many: int) -> int:
    return zlib.crc32(name.encode()) % many
