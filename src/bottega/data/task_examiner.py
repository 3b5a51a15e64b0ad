"""The judge as the examiner of synthesised tasks: it says whether a task can be judged fairly, and how long it takes."""

from __future__ import annotations

from bottega.core.files import strict
from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.tasks.synth import ExaminerReport


class JudgeExaminer:
    """The judge's fitness as an examiner: it runs, repeats, depends on its inputs and parameters, and takes so long.

    The quickest of the judge's first calls is the time that counts: neighbours on a busy machine only ever make a call longer.
    """

    def __init__(self, judge: Judge, compiled: bool):
        self.judge = judge
        self.baselines = ("compile",) if compiled else ("eager",)

    def examine(self, task: Task) -> ExaminerReport:
        report = self.judge.fitness(task, baselines=self.baselines)
        facts = report["facts"]
        problems = tuple((str(problem["name"]), str(problem["detail"])) for problem in report["problems"])
        problems += tuple(("not_compiled", f"the {name} baseline {why}") for name, why in report["unavailable"].items())
        kept = {
            name: facts[name] for name in ("input_bytes", "output_bytes", "parameter_bytes", "reference_ms") if name in facts
        }
        return ExaminerReport(
            bool(report["fit"]) and not report["unavailable"], problems, facts.get("quickest_ms"), strict(kept)
        )
