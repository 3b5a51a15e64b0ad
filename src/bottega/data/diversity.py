"""The diversity filter: no combination of operators, technique or shape of kernel may take more than its places, and none of the few
levels, languages, outcomes and kinds more than its share.

Examples are taken in an order that their text decides, so the same examples always give the same choice; within it the rare come
first. What is left out was crowded: many others say the same.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from bottega.data.breadth import turning
from bottega.data.example import Example
from bottega.data.settings import DiversityCaps

LEAST_FOR_TECHNIQUE = 200


def diverse(examples: Sequence[Example], caps: DiversityCaps) -> list[Example]:
    """Those that stay, in the order in which they were given."""
    by_role: Counter[str] = Counter(example.role for example in examples)
    ranked = _ranked(examples)
    taken: Counter[Hashable] = Counter()
    kept: list[int] = []
    for number in ranked:
        places = list(_places(examples[number], caps, by_role))
        if all(taken[key] < most for key, most in places):
            taken.update(key for key, _ in places)
            kept.append(number)
    return [examples[number] for number in sorted(_balanced(examples, kept, caps.share))]


def _ranked(examples: Sequence[Example]) -> list[int]:
    """Turn by turn through the shapes: the first of each, then the second of each; within a turn as their hashes fall."""
    hashes = [hashlib.sha256(example.id.encode()).digest() for example in examples]
    order = sorted(range(len(examples)), key=lambda number: hashes[number])
    turn: Counter[Hashable] = Counter()
    ranks = {}
    for number in order:
        example = examples[number]
        key = (example.role, example.language, example.ops, example.cluster)
        ranks[number] = turn[key]
        turn[key] += 1
    return sorted(order, key=lambda number: (ranks[number], hashes[number]))


def _places(example: Example, caps: DiversityCaps, by_role: Counter[str]) -> Iterator[tuple[Hashable, int]]:
    """What an example takes a place of, and how many there are."""
    role, language = example.role, example.language
    technique = caps.technique or max(LEAST_FOR_TECHNIQUE, by_role[role] // 8)
    if caps.task:
        yield ("task", example.kind, language, example.task_id), caps.task
    if caps.ops:
        yield ("ops", role, language, example.ops), caps.ops
    if caps.structure:
        yield ("structure", role, example.cluster), caps.structure
    yield ("technique", role, language, example.techniques), technique


def _balanced(examples: Sequence[Example], kept: list[int], share: float) -> list[int]:
    """Axis by axis: a value with more than its share of what was there gives up its last. Nothing is made rarer than that."""
    for axis in (attrgetter("level"), attrgetter("language"), turning, attrgetter("kind")):
        values = Counter(axis(examples[number]) for number in kept)
        if len(values) < 2:
            continue
        most = max(1, math.ceil(share * len(kept)))
        seen: Counter[Any] = Counter()
        stay = []
        for number in kept:
            value = axis(examples[number])
            seen[value] += 1
            if seen[value] <= most:
                stay.append(number)
        kept = stay
    return kept
