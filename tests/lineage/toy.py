"""A toy language of optimisations: a kernel is a comment line of words, a rule adds or removes one. The judge here is scripted.

The order of steps is what these tests are about, and a real judge's times are not foreseeable; `test_lineage_command` has the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.core.workload import LAST_AXIS, PRODUCT, ROW, Operation, Workload
from bottega.lineage.rule import Edit, FunctionRule, Rule, Technique, conditions

TASK = Task(
    "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n\n\ndef get_inputs():\n    return []\n\n\ndef get_init_inputs():\n    return []\n",
    "toy",
)
SIBLING = Task(TASK.source.replace("return []", "return [1]", 1), "sibling")


def kernel(*words: str) -> str:
    lines = "".join(f"#   uses {word}\n" for word in words)
    return f"# begin\n{lines}# end\nclass ModelNew:\n    pass\n"


def words_of(source: str) -> list[str]:
    return [line.split()[-1] for line in source.splitlines() if line.startswith("#   uses ")]


def toy_rule(word: str, forward: bool = True) -> Rule:
    technique = Technique(
        word,
        f"Use the optimisation {word} in the inner loop.",
        f"where {word} is missing",
        f"Write a line that uses {word} between begin and end, in front of all others.",
        conditions(hardware="A machine that has it."),
        (f"Without its conditions {word} reads the wrong elements.",),
        ("toy",),
    )

    def undo(source: str) -> Iterator[Edit]:
        if word in words_of(source):
            yield Edit(kernel(*(each for each in words_of(source) if each != word)), "loop", "1")

    def redo(source: str, value: str) -> Iterator[Edit]:
        if forward and word not in words_of(source):
            yield Edit(kernel(word, *words_of(source)), "loop", value)

    return FunctionRule(technique, undo, redo)


class ScriptedJudge:
    """Right where `right` says so, and as fast as `speed` says."""

    def __init__(
        self,
        speed: Callable[[Sequence[str]], float],
        right: Callable[[Sequence[str]], bool] = lambda words: True,
        most: int | None = None,
    ) -> None:
        self.speed, self.right, self.most = speed, right, most
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def judge(self, task: Task, candidate: Candidate) -> Verdict:
        if len(self.asked) == self.most:
            raise KeyboardInterrupt
        words = words_of(candidate.source)
        self.asked.append((task.name, tuple(words)))
        if not self.right(words):
            return Verdict(Outcome.INCORRECT, diagnosis="element 0 is wrong", candidate_id=candidate.id)
        point = self.speed(words)
        speedup = {"eager": Speedup(point, point * 0.99, point * 1.01)}
        return Verdict(Outcome.FASTER, True, speedup, candidate_id=candidate.id, fingerprint={"device": "toy", "judge": "0"})


def doubling(words: Sequence[str]) -> float:
    """Each optimisation doubles the speed."""
    return 2.0 ** len(words)


def toy_workload(task: Task) -> Workload:
    """The task sums rows, its sibling is a product with sixteen times the bytes."""
    device = DeviceFacts("cpu", "Toy-1", "aarch64 asimd", 1, 1.0)
    if task.id == SIBLING.id:
        return Workload((Operation("linear", PRODUCT, "bfloat16", {"rows": 8, "bytes": 16 << 14}),), device)
    return Workload((Operation("sum", ROW, "float32", {"rows": 8, "columns": 8, "bytes": 1 << 14}, LAST_AXIS),), device)
