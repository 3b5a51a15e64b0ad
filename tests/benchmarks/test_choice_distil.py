"""Winners are taught where they were sure; tasks are set aside by what they are made of; the table counts wrong answers as the rule's."""

from __future__ import annotations

from typing import Any

from choice_distil import BEFORE, MODULES, RULE, WINNERS, answers_of, is_held_out, table, taught
from choice_tasks import FUSED, SweepTask
from own_kernels import LINE

ANSWER = "class ModelNew(Model):\n    def forward(self, x):\n        return one(x)\n"
BETTER = ANSWER.replace("one(x)", "one(x, warps=8)")


def sweep_task() -> SweepTask:
    facts = ("matmul", "float32", "chain", 2, ("linear",), "synth:1/1")
    return SweepTask(
        "id", "name", "class Model:\n    pass\n", *facts, ANSWER, f"import torch\n\n\n{ANSWER}", (), "import torch\nfused = 1\n"
    )


def test_a_winner_is_taught_where_it_was_sure() -> None:
    won = [["rows", "warps=8"]]
    assert taught(sweep_task(), {"gain": 1.1, "answer": BETTER, "winner": won}) == BETTER
    assert taught(sweep_task(), {"gain": 1.01, "answer": BETTER, "winner": won}) == ANSWER
    fused = taught(sweep_task(), {"gain": 1.5, "answer": "", "winner": [[FUSED, "own kernels with what follows fused"]]})
    assert fused.splitlines()[1].strip() == LINE


def test_tasks_of_the_same_operators_are_on_one_side() -> None:
    rows = [{"structure": "chain", "operators": [f"op{n}", "relu"]} for n in range(40)]
    again = [{"structure": "gate", "operators": ["relu", f"op{n}", "relu"]} for n in range(40)]
    assert [is_held_out(row) for row in rows] == [is_held_out(row) for row in again]
    assert 0 < sum(map(is_held_out, rows)) < 40
    assert is_held_out({"structure": "builtin", "operators": []})
    apart = [{"structure": "chain", "operators": ["relu"], "task": f"{n}"} for n in range(40)]
    assert 0 < sum(is_held_out(row, MODULES) for row in apart) < 40


def test_answers_of_the_sweep_are_linked_like_the_rule_s() -> None:
    row = {"random": BETTER, "oracle": "import torch\nfused = 1\n"}
    found = answers_of(sweep_task(), row, {WINNERS: "text", BEFORE: ""})
    assert found["random choice"].source == f"import torch\n\n\n{BETTER}" and found["oracle"].source == row["oracle"]
    assert found[WINNERS].source == "text" and BEFORE not in found


def test_the_table_counts_wrong_answers_as_the_rule_s() -> None:
    def row(ms: float | None) -> dict[str, Any]:
        times = {RULE: {"ms": 1.0, "outcome": "faster"}, WINNERS: {"ms": ms, "outcome": "faster" if ms else "incorrect"}}
        return {"dtype": "float32", "times": times}

    lines = list(table([row(0.25), row(None)]))
    assert any(line.startswith("| the model, taught the winners | 1 of 2 | 4.000 ") and "| 2.000 [" in line for line in lines)
