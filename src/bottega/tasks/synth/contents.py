"""What inputs hold: how it is written, and what its typical values are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from bottega.tasks.synth.value import DRAWS, Table, even, gaussian


@dataclass(frozen=True)
class Contents:
    writes: tuple[str, ...]
    """Templates: `{shape}` is the sizes, `{dtype}` an argument with a comma before it, `{limit}` what integers stay below."""
    table: Callable[[Random], Table]
    sign: str = "any"
    marks: frozenset[str] = frozenset()
    dtype: str | None = None
    often: float = 1.0


def _scaled(rng: Random, table: Table) -> Table:
    scales = np.array([[rng.uniform(0.05, 1.0)] for _ in range(DRAWS)])
    result: Table = table * scales
    return result


CONTENTS: dict[str, Contents] = {
    "normal": Contents(("torch.randn({shape}{dtype})",), gaussian, often=6.0),
    "uniform": Contents(("torch.rand({shape}{dtype})",), even, "unit", often=4.0),
    "signed": Contents(
        ("torch.rand({shape}{dtype}) * 2 - 1", "2 * torch.rand({shape}{dtype}) - 1"),
        lambda rng: even(rng, -1.0, 1.0),
        often=1.0,
    ),
    "wide": Contents(
        ("torch.randn({shape}{dtype}) * 3", "3.0 * torch.randn({shape}{dtype})"), lambda rng: gaussian(rng, 0.0, 3.0), often=0.5
    ),
    "shifted": Contents(
        ("torch.randn({shape}{dtype}) + 0.5", "0.5 + torch.randn({shape}{dtype})"),
        lambda rng: gaussian(rng, 0.5, 1.0),
        often=0.5,
    ),
    "positive": Contents(
        ("torch.rand({shape}{dtype}) + 0.1", "torch.rand({shape}{dtype}) + 0.5", "torch.rand({shape}{dtype}) * 2 + 0.25"),
        lambda rng: even(rng, 0.2, 1.4),
        "positive",
        often=0.0,
    ),
    "inner": Contents(
        ("torch.rand({shape}{dtype}) * 0.9 + 0.05", "torch.rand({shape}{dtype}).clamp(0.05, 0.95)"),
        lambda rng: even(rng, 0.05, 0.95),
        "unit",
        often=0.0,
    ),
    "open": Contents(("torch.rand({shape}{dtype}) * 1.8 - 0.9",), lambda rng: even(rng, -0.9, 0.9), often=0.0),
    "near_one": Contents(
        ("1.0 + 0.05 * torch.randn({shape}{dtype})", "torch.randn({shape}{dtype}) * 0.05 + 1"),
        lambda rng: gaussian(rng, 1.0, 0.05),
        "positive",
        often=0.0,
    ),
    "scaled": Contents(
        ("torch.randn({shape}{dtype}) * torch.rand(1{dtype})", "torch.rand(1{dtype}) * torch.randn({shape}{dtype})"),
        lambda rng: _scaled(rng, gaussian(rng)),
        often=0.0,
    ),
    "scaled_wide": Contents(
        ("torch.randn({shape}{dtype}) * torch.rand(1{dtype}) * 4", "4 * torch.rand(1{dtype}) * torch.randn({shape}{dtype})"),
        lambda rng: _scaled(rng, gaussian(rng, 0.0, 4.0)),
        often=0.0,
    ),
    "scaled_uniform": Contents(
        ("torch.rand({shape}{dtype}) * torch.rand(1{dtype})",), lambda rng: _scaled(rng, even(rng)), "unit", often=0.0
    ),
    "probabilities": Contents(
        ("torch.softmax(torch.randn({shape}{dtype}), dim=-1)", "torch.randn({shape}{dtype}).softmax(dim=-1)"),
        even,
        "unit",
        frozenset({"shares"}),
        often=0.0,
    ),
    "log_probabilities": Contents(
        ("torch.log_softmax(torch.randn({shape}{dtype}), dim=-1)",), lambda rng: -even(rng, 1.0, 8.0), often=0.0
    ),
    "zero_one": Contents(
        ("torch.randint(0, 2, ({shape},)).float()", "(torch.rand({shape}) > 0.5).float()"),
        lambda rng: np.round(even(rng)),
        "unit",
        often=0.0,
    ),
    "plus_minus": Contents(
        ("torch.randint(0, 2, ({shape},)).float() * 2 - 1", "torch.where(torch.rand({shape}) < 0.5, -1.0, 1.0)"),
        lambda rng: np.sign(gaussian(rng)),
        often=0.0,
    ),
    "small_integers": Contents(("torch.randint(0, {limit}, ({shape},))",), even, dtype="int64", often=0.0),
    "integers": Contents(
        ("torch.randint(0, {limit}, ({shape},))", "torch.randint({limit}, ({shape},))"), even, dtype="int64", often=0.0
    ),
    "mask": Contents(
        ("torch.rand({shape}) > 0.3", "torch.rand({shape}) < 0.7", "torch.randint(0, 2, ({shape},), dtype=torch.bool)"),
        lambda rng: np.round(even(rng)),
        dtype="bool",
        often=0.0,
    ),
    "weights": Contents(
        ("torch.randn({shape}{dtype}) * 0.1", "0.1 * torch.randn({shape}{dtype})"),
        lambda rng: gaussian(rng, 0.0, 0.1),
        often=0.0,
    ),
}

_BY_SIGN = {
    "any": tuple((name, found.often) for name, found in CONTENTS.items() if found.often),
    "nonnegative": (("uniform", 1.0),),
    "positive": (("positive", 1.0),),
    "unit": (("uniform", 1.0),),
}


def contents_for(sign: str, rng: Random) -> str:
    names, weights = zip(*_BY_SIGN[sign])
    return str(rng.choices(names, weights)[0])
