"""Whose kernels the trusting bench takes, and the name under which its verdicts are kept: never that of the judge's own."""

from __future__ import annotations

from dataclasses import replace

from bottega.core.errors import UsageError
from bottega.data.settings import JudgeStage
from bottega.data.store import Bench
from bottega.data.stored_verdicts import bench_of

TRUSTED_TEACHERS = ("builder",)
"""Programs of ours that write kernels. What a model wrote is foreign code, whoever trained it."""
VERSION = "1"
"""Raised whenever the same kernel could get another verdict here than before."""
MARK = f"trusted {VERSION}"
NOTE = "trusted bench: not isolated"


def must_be_trusted(teacher: str) -> None:
    if teacher not in TRUSTED_TEACHERS:
        raise UsageError(
            f"--trust-teacher is for {' and '.join(TRUSTED_TEACHERS)} only: kernels of {teacher!r} are foreign code, "
            "and only the judge may run them; leave the option out"
        )


def trusted_bench_of(stage: JudgeStage) -> Bench:
    """The judge's bench on this machine under another name."""
    bench = bench_of(stage)
    return replace(bench, device=bench.device.replace("; quick; ", f"; {MARK}; "))


def is_trusted(bench: Bench) -> bool:
    return "; trusted " in bench.device
