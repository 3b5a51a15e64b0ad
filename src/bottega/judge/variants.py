"""Names of input variants and precisions: kept apart from their code so that the judge's own process needs no torch."""

import secrets
from collections.abc import Iterable

PARTS = ("large", "faint")
"""`spiked` in two: large elements alone, and faint slices and zeros alone. Together they would tell each other: a kernel that is careful where
something is large could do without an epsilon."""
VARIANTS = ("plain", "mixed", "spiked", *PARTS, "heavy", "offset")
QUICK_VARIANTS = ("plain", "spiked")
OF_LONG_SUMS = ("concentrated",)
"""Tried as well, in a quick verdict too, where an output has so few elements that each is made of very many."""
OF_INTEGERS = ("discrete", "uniform")
"""Tried as well where some input is integer, boolean or has few values. Not timed: where indices repeat more often than they do as drawn, memory
and atomics are quicker or slower."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


def chosen(accepted: Iterable[str]) -> str:
    """A variant for a timed call, at random; the parts of `spiked` come in its place."""
    names = list(accepted)
    name = secrets.choice([each for each in names if each not in PARTS or "spiked" not in names])
    return secrets.choice([each for each in names if each in ("spiked", *PARTS)]) if name == "spiked" else name


def planned(accepted: Iterable[str], count: int) -> list[str]:
    """The same for so many calls, the first ones: each variant that has no trial in a quick verdict is among them, at a place of its own."""
    names = list(accepted)
    plan = [chosen(names) for _ in range(count)]
    others = [each for each in names if each not in QUICK_VARIANTS][: count // 2]
    for place, name in zip(secrets.SystemRandom().sample(range(count), len(others)), others):
        plan[place] = name
    return plan
