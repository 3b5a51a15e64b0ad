"""How alike two cards are: Jaccard similarity of word shingles, once over the text and once over the example code.

MinHash signatures are kept with the cards, so that a sweep over a large library compares numbers and reads only the few pairs
that look alike. Text and code are signed apart: a reworded card with the same code, or the reverse, is still half alike.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from bottega.core.skill import AppliesTo, Skill

PERMUTATIONS = 64
BAND = 4
"""Rows in a band: two cards are compared when all rows of one band agree. Similarity 0.6 is found with probability 0.89, 0.8 always."""
ALIKE = 0.6
CHUNK = 1 << 16
"""Pairs of signatures that are compared at a time, so that a large library does not fill the memory with copies."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_draw = np.random.default_rng(20260617)
_A = _draw.integers(0, 1 << 63, (PERMUTATIONS, 1), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_B = _draw.integers(0, 1 << 63, (PERMUTATIONS, 1), dtype=np.uint64)

_FOLDED = bytes.maketrans(ascii_uppercase.encode() + b"123456789", ascii_lowercase.encode() + b"0" * 9)
"""Small letters, and one digit for all."""
_WORD = re.compile(rb"[a-z]+|0(?!0)|[^\sa-z0]")
_PROSE = re.compile(rb"[a-z]+")
_COMMENT = re.compile(r"//[^\n]*|#(?!\s*(?:include|pragma|define))[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)

Shingles = NDArray[np.uint64]
Signature = NDArray[np.uint32]


def text_shingles(skill: Skill) -> Shingles:
    prose = " ".join((skill.name, skill.intent, skill.anchor, skill.technique, *(text for _, text in skill.conditions.items())))
    return shingles(_PROSE.findall(_folded(prose)), 3)


def code_shingles(skill: Skill) -> Shingles:
    """Numbers are one word and comments none: a block size does not make a new skill."""
    return shingles(_WORD.findall(_folded(_COMMENT.sub(" ", skill.example))), 5)


def _folded(text: str) -> bytes:
    return text.encode(errors="replace").translate(_FOLDED)


def shingles(words: Sequence[bytes], length: int) -> Shingles:
    """A number for every run of so many words. A thousand cards a second pass here, so runs are numbered all at once."""
    hashes = np.fromiter(map(zlib.crc32, words), dtype=np.uint64, count=len(words))
    count = max(1, len(words) - length + 1) if words else 0
    runs = hashes[:count].copy()
    for place in range(1, min(length, len(words))):
        runs *= _MIX
        runs ^= runs >> _HALF
        runs += hashes[place : place + count]
    return runs


def signature(skill: Skill) -> bytes:
    """The MinHash signatures of text and code, one after the other."""
    return np.concatenate([minhash(text_shingles(skill)), minhash(code_shingles(skill))]).tobytes()


def minhash(of: Shingles) -> Signature:
    if not of.size:
        return np.full(PERMUTATIONS, np.iinfo(np.uint32).max, dtype=np.uint32)
    mixed = of * _MIX
    mixed ^= mixed >> _HALF
    least: Signature = ((mixed * _A + _B).min(axis=1) >> _HALF).astype(np.uint32)
    return least


def similarity(one: Skill, other: Skill) -> float:
    """The mean of both similarities, exactly. Of cards with typed conditions that never hold together, or with other numbers to take, none: which
    number is best for which sizes is all that such cards say."""
    if one.applies_to and other.applies_to and (_apart(one.applies_to, other.applies_to) or _numbers(one) != _numbers(other)):
        return 0.0
    return (_jaccard(text_shingles(one), text_shingles(other)) + _jaccard(code_shingles(one), code_shingles(other))) / 2


def _apart(one: AppliesTo, other: AppliesTo) -> bool:
    """Whether no operation can be as both ask."""
    named = (
        (one.dtypes, other.dtypes),
        ({*one.operators, *one.kinds}, {*other.operators, *other.kinds}),
        (one.layouts, other.layouts),
    )
    ranges = ((one.sizes[name], other.sizes[name]) for name in one.sizes.keys() & other.sizes.keys())
    return any(a and b and not {*a} & {*b} for a, b in named) or any(a[1] < b[0] or b[1] < a[0] for a, b in ranges)


def _numbers(skill: Skill) -> list[str]:
    return re.findall(r"\d+", skill.technique)


def _jaccard(one: Shingles, other: Shingles) -> float:
    first, second = set(one.tolist()), set(other.tolist())
    together = len(first | second)
    return len(first & second) / together if together else 1.0


def likely_pairs(signatures: NDArray[np.uint32], least: float = ALIKE) -> list[tuple[int, int, float]]:
    """Pairs of rows whose signatures are at least about that alike, with the estimate; found by bands, not by comparing all."""
    found: dict[tuple[int, int], float] = {}
    for start in range(0, signatures.shape[1], BAND):
        ones, others = _pairs_of_band(signatures[:, start : start + BAND])
        for first in range(0, len(ones), CHUNK):
            one, other = ones[first : first + CHUNK], others[first : first + CHUNK]
            estimates = (signatures[one] == signatures[other]).mean(axis=1)
            for place in np.flatnonzero(estimates >= least - 0.1):
                found[int(one[place]), int(other[place])] = float(estimates[place])
    return [(one, other, estimate) for (one, other), estimate in sorted(found.items())]


def _pairs_of_band(band: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows that agree in a band. The first of a run stands for all: pairs grow with the run's length, not with its square."""
    keys = np.zeros(len(band), dtype=np.uint64)
    for column in band.T:
        keys = (keys ^ column) * _MIX
        keys ^= keys >> _HALF
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    first = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    return first[~new], order[~new]
