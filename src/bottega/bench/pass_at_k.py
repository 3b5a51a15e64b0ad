"""pass@k and the expected best of k out of n samples: exact over all subsets, so neither biased nor noisy.

Taking the first k samples, or the share of right ones to the power of k, would be the one or the other.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from bottega.bench.bootstrap import Floats


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The chance that at least one of k samples is right, drawn without replacement from `samples` of which `right` are."""
    if not 0 <= right <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} of {right} right among {samples} samples")
    return 1 - comb(samples - right, k) / comb(samples, k)


def chances(right: NDArray[np.int64], samples: int, k: int) -> Floats:
    """`pass_at_k` for each task, given how many of its samples are right."""
    table = np.array([pass_at_k(samples, count, k) for count in range(samples + 1)])
    found: Floats = table[right]
    return found


def best_of_weights(samples: int, k: int) -> Floats:
    """How likely each sample, in ascending order, is the best of k drawn ones."""
    if not 1 <= k <= samples:
        raise ValueError(f"the best of {k} among {samples} samples")
    return np.array([comb(rank, k - 1) / comb(samples, k) for rank in range(samples)])


def expected_best(ranks: Floats, worths: Floats, k: int) -> Floats:
    """For each task (row) the expected worth of that one of k samples whose rank is highest."""
    order = np.argsort(ranks, axis=1, kind="stable")
    found: Floats = np.take_along_axis(worths, order, axis=1) @ best_of_weights(ranks.shape[1], k)
    return found


def usual_k(samples: int) -> tuple[int, ...]:
    """1, 2, 4, … and all of them."""
    return tuple(sorted({samples, *(2**power for power in range(samples.bit_length()) if 2**power <= samples)} - {0}))
