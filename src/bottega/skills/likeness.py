"""How alike two cards are: Jaccard likeness of word shingles, once over the text and once over the example code.

MinHash signatures are kept with the cards, so that a sweep over a large library compares numbers and reads only the few pairs
that look alike. Text and code are signed apart: a reworded card with the same code, or the reverse, is still half alike.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bottega.core.skill import Skill

PERMUTATIONS = 64
BAND = 4
"""Rows in a band: two cards are compared when all rows of one band agree. Likeness 0.6 is found with probability 0.89, 0.8 always."""
ALIKE = 0.6

_PRIME = np.uint64((1 << 61) - 1)
_draw = np.random.default_rng(20260617)
_A = _draw.integers(1, 1 << 29, PERMUTATIONS, dtype=np.uint64)
_B = _draw.integers(0, 1 << 29, PERMUTATIONS, dtype=np.uint64)

_WORD = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")
_PROSE = re.compile(r"[a-z]+")
_COMMENT = re.compile(r"//[^\n]*|#(?!\s*(?:include|pragma|define))[^\n]*|/\*.*?\*/", re.DOTALL)

Signature = NDArray[np.uint32]


def text_shingles(skill: Skill) -> set[int]:
    prose = " ".join((skill.name, skill.intent, skill.anchor, skill.technique, *(text for _, text in skill.conditions.items())))
    return _shingles(_PROSE.findall(prose.lower()), 3)


def code_shingles(skill: Skill) -> set[int]:
    """Numbers are one word and comments none: a block size does not make a new skill."""
    words = _WORD.findall(_COMMENT.sub(" ", skill.example).lower())
    return _shingles(["0" if word.isdigit() else word for word in words], 5)


def _shingles(words: Sequence[str], length: int) -> set[int]:
    if not words:
        return set()
    return {zlib.crc32(" ".join(words[start : start + length]).encode()) for start in range(max(1, len(words) - length + 1))}


def signature(skill: Skill) -> bytes:
    """The MinHash signatures of text and code, one after the other."""
    return np.concatenate([_minhash(text_shingles(skill)), _minhash(code_shingles(skill))]).tobytes()


def _minhash(shingles: Iterable[int]) -> Signature:
    hashes = np.fromiter(shingles, dtype=np.uint64)
    if not hashes.size:
        return np.full(PERMUTATIONS, np.iinfo(np.uint32).max, dtype=np.uint32)
    mixed = (hashes[:, None] * _A[None, :] + _B[None, :]) % _PRIME
    least: Signature = (mixed.min(axis=0) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return least


def likeness(one: Skill, other: Skill) -> float:
    """The mean of both likenesses, exactly."""
    return (_jaccard(text_shingles(one), text_shingles(other)) + _jaccard(code_shingles(one), code_shingles(other))) / 2


def _jaccard(one: set[int], other: set[int]) -> float:
    together = len(one | other)
    return len(one & other) / together if together else 1.0


def likely_pairs(signatures: NDArray[np.uint32], least: float = ALIKE) -> list[tuple[int, int, float]]:
    """Pairs of rows whose signatures are at least about that alike, with the estimate; found by bands, not by comparing all."""
    candidates: set[tuple[int, int]] = set()
    for start in range(0, signatures.shape[1], BAND):
        band = np.ascontiguousarray(signatures[:, start : start + BAND]).view(f"V{4 * BAND}").ravel()
        order = np.argsort(band, kind="stable")
        same = band[order[1:]] == band[order[:-1]]
        candidates.update(_runs(order, same))
    pairs = []
    for one, other in sorted(candidates):
        estimate = float((signatures[one] == signatures[other]).mean())
        if estimate >= least - 0.1:
            pairs.append((one, other, estimate))
    return pairs


def _runs(order: NDArray[np.intp], same: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """Within a run of equal bands the first stands for all: pairs grow with the run's length, not with its square."""
    first = 0
    for place in np.flatnonzero(same):
        if place == 0 or not same[place - 1]:
            first = int(order[place])
        one, other = sorted((first, int(order[place + 1])))
        yield one, other
