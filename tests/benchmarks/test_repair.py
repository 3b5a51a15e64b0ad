"""Turns against samples at equal budget: who is asked again and with what, what counts as right, and what the tables say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import edge_data
import edge_rl
import pytest
import repair
from edge_data import chat_row, difference, is_right, known_verdicts, points, prompt_of, split_of, turn_of
from repair import contrasts, next_prompts, table

from bottega.core.candidate import Candidate
from bottega.core.verdict import Outcome, Verdict

SOURCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


def task_row(name: str) -> dict[str, Any]:
    return {
        "task": name,
        "name": name,
        "family": "f",
        "dtype": "float32",
        "source": SOURCE,
        "prompt": [{"role": "user", "content": "first"}],
        "answer": "```python\n```",
        "held_out": False,
    }


def answer_row(task: str, source: str, fault: str = "") -> dict[str, Any]:
    return {"task": task, "text": source, "source": source, "fault": fault}


def verdicts_of(*rows: tuple[str, str, Outcome]) -> edge_data.Verdicts:
    return {(task, Candidate(source, "triton").id): Verdict(outcome, diagnosis="off by one") for task, source, outcome in rows}


def test_an_answer_is_right_wrong_or_not_known() -> None:
    known = verdicts_of(("a", "good", Outcome.SLOWER), ("a", "bad", Outcome.INCORRECT), ("a", "odd", Outcome.INVALID_TASK))
    assert [is_right(answer_row("a", source), known) for source in ("good", "bad", "", "odd", "new")] == [
        True,
        False,
        False,
        None,
        None,
    ]


def test_a_wrong_answer_and_its_diagnosis_are_in_the_next_prompt() -> None:
    known = verdicts_of(("a", "ModelNew = 1", Outcome.INCORRECT))
    told = json.dumps(prompt_of(SOURCE, "a", [turn_of(answer_row("a", "ModelNew = 1"), known)]))
    assert "off by one" in told and "ModelNew = 1" in told
    assert "no kernel at all" in json.dumps(prompt_of(SOURCE, "a", [turn_of(answer_row("a", "", "no kernel at all"), known)]))
    assert "off by one" not in json.dumps(prompt_of(SOURCE, "a"))


def test_an_answer_that_is_the_compilers_own_is_not_mended_by_itself() -> None:
    task = {**task_row("a"), "answer": "```python\nx = 1  \n\n# why\ny = 2\n```"}
    assert not repair.can_be_mended(answer_row("a", "```python\nx = 1\ny = 2\n```"), task)
    assert repair.can_be_mended(answer_row("a", "```python\nx = 2\ny = 2\n```"), task)


def test_a_way_is_asked_on_until_it_is_right_and_only_turns_see_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "later_prompt", lambda row, past: [{"role": "user", "content": f"after {len(past)}"}])
    by_task = {name: task_row(name) for name in ("a", "b", "c")}
    lines: repair.Lines = {(task, way): [] for task in by_task for way in repair.WAYS}
    with ThreadPoolExecutor(1) as pool:
        assert len(next_prompts(lines, by_task, {}, pool)) == 6  # type: ignore[arg-type]
        for task, source in (("a", "good"), ("b", "bad"), ("c", "unjudged")):
            for way in repair.WAYS:
                lines[task, way].append(answer_row(task, source))
        known = verdicts_of(("a", "good", Outcome.FASTER), ("b", "bad", Outcome.INCORRECT))
        asked = next_prompts(lines, by_task, known, pool)  # type: ignore[arg-type]
    assert {key: prompt[0]["content"] for key, prompt in asked.items()} == {
        ("b", "serial"): "after 1",
        ("b", "parallel"): "first",
    }


def evaluated(*ways: tuple[list[bool], list[bool]]) -> list[dict[str, Any]]:
    return [
        {"task": str(number), "answers": 2, "serial": serial, "parallel": parallel}
        for number, (serial, parallel) in enumerate(ways)
    ]


def test_the_table_holds_turns_against_samples() -> None:
    rows = evaluated(
        ([True], [True]), ([False, True], [False, False]), ([False, True], [False, True]), ([False, False], [False, False])
    )
    lines = list(table({"taught": rows}))
    assert lines[2].startswith("| taught | 4 | 1 | 25% | 25% | +0.0")
    assert lines[3].startswith("| taught | 4 | 2 | 50% | 75% | +25.0")
    assert lines[3].endswith("| 1 by a sample, 2 by a turn, of 3 |")
    (line,) = contrasts({"taught": rows, "control": evaluated(*[([True], [True])] * 4)})
    assert line.startswith("taught less control, 4 tasks: +25.0")


def test_a_difference_has_its_interval_over_tasks() -> None:
    estimate = difference([1.0] * 30 + [0.0] * 10, [0.0] * 40)
    assert estimate.point == 0.75 and estimate.low is not None and 0.5 < estimate.low < 0.75
    assert points(estimate).startswith("+75.0 (+")


def test_tasks_behind_the_first_ones_that_were_not_judged_are_left_out() -> None:
    """Else those would stay that needed one verdict alone: the right ones."""
    assert edge_data.wholly_judged([True] * 60 + [False] + [True] * 9 + [False, True] * 40) == 70
    assert edge_data.wholly_judged([True] * 30) == 30
    assert edge_data.wholly_judged([False, True, True]) == 0


def test_sides_do_not_mix_and_limits_follow_each_other(tmp_path: Path) -> None:
    rows = [{**task_row(f"t{number}"), "held_out": number % 3 == 0} for number in range(12)]
    (tmp_path / edge_data.TASKS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    learned, aside = split_of(tmp_path, False), split_of(tmp_path, True)
    assert len(learned) == 8 and len(aside) == 4 and not any(row["held_out"] for row in learned)
    assert [*split_of(tmp_path, False, 3), *split_of(tmp_path, False, 5, 3)] == learned
    assert chat_row([{"role": "user", "content": "x"}], "y")["messages"][-1] == {"role": "assistant", "content": "y"}


def test_arms_are_compared_on_tasks_that_both_have(tmp_path: Path) -> None:
    good, bad = "ModelNew = 1", "ModelNew = 2"
    kept = [{"task": task, "candidate": Candidate(source, "triton").id, "verdict": Verdict(outcome).to_json()}
            for task in "ab" for source, outcome in ((good, Outcome.FASTER), (bad, Outcome.INCORRECT))]  # fmt: skip
    (tmp_path / edge_data.VERDICTS).write_text("".join(json.dumps(row) + "\n" for row in kept))
    assert len(known_verdicts(tmp_path)) == 4

    def answers(name: str, *sources: str) -> None:
        rows = [{**answer_row(task, source), "sample": number} for task in "ab" for number, source in enumerate(sources)]
        (tmp_path / f"answers-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    answers("cold", bad, good, bad)
    answers("rl", good, good, good)
    found = edge_rl._judged(tmp_path)
    assert found == {"cold": {"a": (0.0, 0.5), "b": (0.0, 0.5)}, "rl": {"a": (1.0, 1.0), "b": (1.0, 1.0)}}
    assert "| rl | 2 | 100.0% | 100.0% |" in list(edge_rl.table(found))
    assert any(line.startswith("| rl over cold | 2 | +100.0") for line in edge_rl.contrasts(found))


def test_an_arm_comes_back_whole_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_rl, "PIECE", 4000)
    run = tmp_path / "here" / "rl"
    files = {
        "checkpoints/step-00000002/tensors/x": "w" * 9000,
        "events.jsonl": "{}",
        "model/model.safetensors": "m",
        "steps/000001/events.jsonl": "s",
    }
    for place, text in files.items():
        (run / place).parent.mkdir(parents=True, exist_ok=True)
        (run / place).write_text(text)
    edge_rl.pack(tmp_path / "here", "rl", tmp_path / "pieces")
    assert len(list((tmp_path / "pieces").iterdir())) > 2
    edge_rl.unpack(tmp_path / "there", "rl", tmp_path / "pieces")
    found = sorted(
        str(path.relative_to(tmp_path / "there" / "rl")) for path in (tmp_path / "there").rglob("*") if path.is_file()
    )
    assert found == ["checkpoints/step-00000002/tensors/x", "events.jsonl"]


def test_settings_of_every_arm_can_be_read() -> None:
    for name, own in edge_rl.ARMS.items():
        config = edge_rl.read_config("rl", "one-gpu", None, [*edge_rl.RL_SETTINGS, *own])
        assert config.rollout.band == edge_rl.BAND, name
        assert config.rollout.samples * (config.rollout.schemes + 1) == 8, name
        assert not config.rejection.coverage.on and config.model.lora is None, name


@pytest.mark.rotates
def test_evaluating_and_selecting_go_from_tasks_to_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Model and judge are fakes: of the draws of an even seed every third is right, a turn mends what is wrong, another sample does not."""
    rows = [
        {**task_row(f"t{number}"), "source": f"{SOURCE}\nnumber = {number}\n", "held_out": number < 3} for number in range(6)
    ]
    (tmp_path / edge_data.TASKS).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answered(spec: str, device: str, asked: list[Any], tokens: int, pool: Any) -> list[dict[str, Any]]:
        def good(one: Any) -> bool:
            return "Attempt 1" in json.dumps(one.prompt) or (int(one.row["task"][1:]) % 3 == 0 and one.seed % 2 == 0)

        return [answer_row(one.row["task"], "good" if good(one) else "bad") for one in asked]

    def judged(folder: Path, drawn: Any, by_task: Any, *rest: Any) -> edge_data.Verdicts:
        outcomes = {"good": Outcome.FASTER, "bad": Outcome.INCORRECT}
        return verdicts_of(*((task, source, outcome) for task in by_task for source, outcome in outcomes.items()))

    for module in (repair, edge_rl):
        monkeypatch.setattr(module, "answered", answered)
        monkeypatch.setattr(module, "judge_answers", judged)
    repair.evaluate(tmp_path, "taught", processes=1, answers=2, limit=0)
    assert "| taught | 3 | 2 | 33% | 100% | +66.7" in capsys.readouterr().out
    repair.report(tmp_path)
    repair.draw(tmp_path, processes=1, skip=0, samples=2)
    assert "round 1: 1 of 6 right, 3 repairs" in capsys.readouterr().out
    assert all("off by one" in line for line in (tmp_path / "repairs-1.jsonl").read_text().splitlines())
    monkeypatch.setattr(edge_rl, "known_verdicts", lambda folder: judged(folder, [], [row["task"] for row in rows]))
    edge_rl.select(tmp_path)
    assert "of 3 tasks 1 are kept; 0 were always right, 2 never" in capsys.readouterr().out
    assert len(list((tmp_path / edge_rl.KEPT).iterdir())) == 1
    for row in rows:
        row["answer"] = "good  \n# as the compiler has it"
    (tmp_path / edge_data.TASKS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(edge_rl, "drawn_texts", lambda *asked: [one["text"] for one in answered(*asked, None)])
    edge_rl.draw(tmp_path, skip=0, samples=2)
    edge_rl.select(tmp_path, by_answer=True)
    assert "of 3 tasks 1 are kept; 0 were always right, 2 never" in capsys.readouterr().out
