"""The sweep keeps what was measured, measures the best again against the rule, and counts that alone. The judge is a stand-in: times are made up."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

import choice_sweep
import pytest
from choice_sweep import measured, rows_of, table, tasks_of
from choice_tasks import FUSED, SweepTask

from bottega.compiler.answer_choices import AnswerChange
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict

KEPT = Path(choice_sweep.__file__).parent / "choice_sweep_h200"
ANSWER = "class ModelNew(Model):\n    def forward(self, x):\n        return one(x) + two(x)\n"
AFTER_ONE, AFTER_TWO = ANSWER.index("one(x") + 5, ANSWER.index("two(x") + 5


def sweep_task() -> SweepTask:
    changes = (
        AnswerChange("one", "warps=4", ((AFTER_ONE, AFTER_ONE, ", warps=4"),)),
        AnswerChange("one", "warps=8", ((AFTER_ONE, AFTER_ONE, ", warps=8"),)),
        AnswerChange("two", "block=64", ((AFTER_TWO, AFTER_TWO, ", block=64"),)),
    )
    source = "class Model:\n    pass\n"
    facts = ("matmul", "float32", "chain", 2, ("linear",), "synth:1/1")
    return SweepTask("id", "name", source, *facts, ANSWER, f"import torch\n\n\n{ANSWER}", changes)


class MadeUp:
    """A call takes 1 ms, less or more by what its source says."""

    def __init__(self, factors: dict[str, float], again: dict[str, float] | None = None, wrong: str = "never") -> None:
        self.factors, self.again, self.wrong, self.batches = factors, again or factors, wrong, 0

    def judge_many(
        self, task: Task, candidates: Sequence[Candidate], *, rounds: int = 0, profiled: bool = True
    ) -> list[Verdict | None]:
        self.batches += 1
        factors = self.factors if self.batches == 1 else self.again
        found: list[Verdict | None] = []
        for candidate in candidates:
            if self.wrong in candidate.source:
                found.append(Verdict(Outcome.INCORRECT, diagnosis="wrong"))
                continue
            ms = 1.0
            for text, factor in factors.items():
                ms *= factor if text in candidate.source else 1.0
            found.append(
                Verdict(Outcome.FASTER, True, {"eager": Speedup(2 / ms, 2 / ms, 2 / ms)}, {"candidate": ms, "eager": 2.0})
            )
        return found


def test_winners_of_several_places_are_tried_together() -> None:
    row = measured(sweep_task(), MadeUp({"warps=8": 0.8, "block=64": 0.9}))
    assert row["gain"] == pytest.approx(1 / 0.72) and len(row["again"]) == 2
    assert row["winner"] == [["two", "block=64"], ["one", "warps=8"]]
    assert "one(x, warps=8) + two(x, block=64)" in row["answer"]


def test_a_winner_by_noise_counts_as_what_it_is_the_second_time() -> None:
    row = measured(sweep_task(), MadeUp({"warps=4": 0.8}, again={"warps=4": 1.25}))
    assert row["gain"] == pytest.approx(0.8)


def test_the_rule_stays_where_nothing_looks_better_and_wrong_variants_have_no_time() -> None:
    row = measured(sweep_task(), MadeUp({"warps=4": 1.5, "warps=8": 0.5}, wrong="warps=8"))
    assert row["gain"] == 1.0 and not row["winner"]
    assert [variant["ms"] for variant in row["variants"]] == [1.5, None, 1.0]


def test_the_table_takes_geometric_means_over_tasks() -> None:
    one = measured(sweep_task(), MadeUp({"warps=8": 0.5}))
    two = measured(sweep_task(), MadeUp({"warps=8": 2.0}))
    lines = list(table([one, two]))
    assert any(line.startswith("| matmul | float32 | 2 | 1.414 ") for line in lines)
    assert lines[0] == "2 of 2 tasks timed, 6 of 6 variants right"


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"task": "a"}\n{"task": ')
    assert rows_of(path) == [{"task": "a"}]


def test_a_packed_file_is_read_where_there_is_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.with_name("results.jsonl.xz").write_bytes(lzma.compress(b'{"task": "packed"}\n'))
    assert rows_of(path) == [{"task": "packed"}]
    path.write_text('{"task": "plain"}\n')
    assert rows_of(path) == [{"task": "plain"}]


def test_the_sweep_that_is_kept_can_be_read() -> None:
    tasks, found = {one.id: one for one in tasks_of(KEPT)}, rows_of(KEPT / "results.jsonl")
    assert len(found) == 801 and all(row["task"] in tasks for row in found)
    for row in found:
        labels = [(change.place, change.label) for change in tasks[row["task"]].variants]
        assert [(one["place"], one["label"]) for one in row["variants"] if one["place"] != FUSED] == labels
