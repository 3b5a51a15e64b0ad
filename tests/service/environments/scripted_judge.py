"""A judge that says what it was told to, for tests of what lies around it; the real one needs seconds and a quiet machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict

ROOT = Path(__file__).resolve().parents[3]
KERNEL = (
    "It fuses.\n```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n```"
)


def faster(speedup: float) -> Verdict:
    return Verdict(
        Outcome.FASTER, correct=True, speedup={"eager": Speedup(speedup, speedup * 0.9, speedup * 1.1)}, coverage={"share": 1.0}
    )


def wrong() -> Verdict:
    return Verdict(Outcome.INCORRECT, diagnosis="Element 3 is 0.5 and should be 0.25.")


class ScriptedJudge:
    """Verdicts in their order; an exception among them is raised. Keeps what it was asked."""

    def __init__(self, verdicts: Sequence[Verdict | Exception], repeat: bool = False) -> None:
        self.verdicts, self.repeat = list(verdicts), repeat
        self.asked: list[tuple[Task, Candidate]] = []

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        found = self.verdicts[len(self.asked) % len(self.verdicts) if self.repeat else len(self.asked)]
        self.asked.append((task, candidate))
        if isinstance(found, Exception):
            raise found
        return found

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return self.judge(task, candidate, **options)


def lost() -> JudgeError:
    return JudgeError("the judge's worker was lost")
