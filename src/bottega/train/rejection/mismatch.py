"""MRS, rejection by mismatch (Dr. Kernel): a trace that is improbable under the trainer's log-probs is dropped.

Decoder and trainer compute the same log-probs with other kernels and other rounding. A trace stays when the geometric mean of the
tokens' ratios, trainer over decoder, over all tokens of all its turns, lies within narrow bounds, and no token's ratio is below
the veto. Anything that is no number drops the trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from bottega.core.trace import Trace
from bottega.train.rejection.report import Dropped, Rejection
from bottega.train.settings import MismatchSettings


def reject_by_mismatch(
    traces: Iterable[Trace], trained: Mapping[str, Sequence[Sequence[float]]], rule: MismatchSettings
) -> Rejection:
    """`trained`: for each trace, turn by turn, the trainer's log-probs of the drawn tokens."""
    looked_at, dropped = 0, []
    for trace in traces:
        looked_at += 1
        differences: list[float] = []
        for turn, ours in zip(trace.turns, trained[trace.id], strict=True):
            drawn = turn.logprobs or ()
            differences += [own - other for own, other in zip(ours, drawn, strict=True)]
        fault = mismatch_of(differences, rule)
        if fault is not None:
            dropped.append(Dropped("mismatch", trace.id, None, *fault))
    return Rejection(looked_at, tuple(dropped))


def mismatch_of(differences: Sequence[float], rule: MismatchSettings) -> tuple[str, float] | None:
    """Why a trace with these log-ratios is dropped, and the ratio that was the reason; None when it stays."""
    if not differences:
        return None
    if not all(math.isfinite(value) for value in differences):
        return "no number", math.nan
    least = math.exp(max(-700.0, min(differences)))
    if least < rule.veto:
        return "veto", least
    ratio = math.exp(min(700.0, math.fsum(differences) / len(differences)))
    if not rule.low <= ratio <= rule.high:
        return "geometric mean", ratio
    return None
