"""Whose kernels the trusted judge takes, and the name under which its verdicts are stored: never that of the judge's own."""

from __future__ import annotations

from dataclasses import replace

from bottega.core.errors import UsageError
from bottega.data.settings import JudgeStage
from bottega.data.store import JudgeSetup
from bottega.data.stored_verdicts import judge_setup_of
from bottega.judge.trusted import TRUSTED_VERSION

TRUSTED_TEACHERS = ("compiler",)
"""Programs of ours that write kernels. What a model wrote is foreign code, whoever trained it."""


def must_be_trusted(teacher: str) -> None:
    """Raises `UsageError` for a teacher whose kernels only the judge may run."""
    if teacher not in TRUSTED_TEACHERS:
        raise UsageError(
            f"trust_teacher is for {' and '.join(TRUSTED_TEACHERS)} only: kernels of {teacher!r} are foreign code, "
            "and only the judge may run them; leave the option out"
        )


def trusted_setup_of(stage: JudgeStage) -> JudgeSetup:
    """The judge's setup on this machine under another name."""
    setup = judge_setup_of(stage)
    return replace(setup, device=setup.device.replace("; quick; ", f"; trusted {TRUSTED_VERSION}; "))


def is_trusted(setup: JudgeSetup) -> bool:
    return "; trusted " in setup.device
