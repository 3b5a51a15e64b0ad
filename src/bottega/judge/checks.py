"""Checks of one's own: rules that a candidate must keep beside the judge's, such as "no assembly" or "no more than one kernel".

A check is a pure function `(task, candidate, verdict) -> str | None`. It is asked about candidates that the judge has accepted, and says
what is wrong with one, or None: so it can reject, and never accept. It runs in the judge's own process; the text it reads is a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.plugins import Plugins
from bottega.core.task import Task
from bottega.core.verdict import Verdict, Violation

Check = Callable[[Task, Candidate, Verdict], str | None]

CHECKS = Plugins("checks", "check", {})


def check_violations(names: Sequence[str], task: Task, candidate: Candidate, verdict: Verdict) -> list[Violation]:
    """What the named checks say against a candidate. A check that raises is a `JudgeError`: nobody knows what it would have said."""
    found = []
    for name in names:
        check: Check = CHECKS.load(name)
        try:
            wrong = check(task, candidate, verdict)
        except Exception as error:
            raise JudgeError(f"the check {name} failed on {candidate.name}: {type(error).__name__}: {error}") from error
        if wrong:
            found.append(Violation(name.rpartition(":")[2], wrong))
    return found
