"""Verdicts of a lineage, each asked for once: the same text on the same task is never judged twice, also after a kill."""

from __future__ import annotations

from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.context import BlockingJudge
from bottega.languages import candidate_from
from bottega.lineage.journal import LineageJournal, Record
from bottega.lineage.rule import Edit
from bottega.lineage.step import Attempt, effect_between


class JudgedKernels:
    def __init__(self, journal: LineageJournal, judge: BlockingJudge) -> None:
        self.journal, self._judge = journal, judge

    def verdict(self, task: Task, source: str, told: str = "a kernel") -> Verdict:
        """`told`: what is judged, for whoever watches."""
        candidate = candidate_from(source)
        key = f"verdict/{task.id}/{candidate.id}"

        def made() -> Record:
            return {"verdict": self._judge.judge(task, candidate).to_json(), "source": source, "told": told, "task": task.label}

        record = self.journal.once(key, made)
        return Verdict.from_json(record["verdict"])

    def undone(self, task: Task, current: str, feature: str, edit: Edit) -> Attempt:
        """A step backward: the effect is the current kernel's over the edited one's."""
        return self._attempt(task, edit, feature, "without", plain=edit.source, optimised=current)

    def redone(self, task: Task, plain: str, feature: str, edit: Edit) -> Attempt:
        """A step forward: the effect is the edited kernel's over the plain one's."""
        return self._attempt(task, edit, feature, "with", plain=plain, optimised=edit.source)

    def _attempt(self, task: Task, edit: Edit, feature: str, how: str, *, plain: str, optimised: str) -> Attempt:
        verdict = self.verdict(task, edit.source, f"{how} {feature}")
        accepted = verdict.outcome.accepted
        effect = effect_between(self.verdict(task, plain), self.verdict(task, optimised)) if accepted else None
        diagnosis = "" if accepted else verdict.diagnosis[:400]
        return Attempt(feature, edit.value, edit.where, edit.source, verdict.outcome.value, accepted, effect, diagnosis)
