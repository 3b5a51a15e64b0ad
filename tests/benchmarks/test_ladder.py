"""The ladder and the ablation: which sources are judged, in which order, once; and how the tables count their verdicts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path

import ablation
import ladder
import pytest
from episodes.decay import answer, episode_context
from ladder import UNSEEN, Draw, Planned, planned
from network_task import FORGETFUL, SMALL
from typer.testing import CliRunner

from bottega.agents.answers.pipeline import DEPLOYMENT
from bottega.backbone.chat import Message
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.writing import sampled

RIGHT = "class ModelNew(Model):\n    def forward(self, x):\n        return softmax(super().forward(x), 1)\n"
TEXTS = {
    "right": answer(RIGHT),
    "unknown": answer(RIGHT.replace("(x), 1", "(x), somewhere")),
    "no Python": answer(RIGHT.replace(", 1)", ", 1))")),
    "network": answer(FORGETFUL),
    "no code": "I would call softmax.",
}
WRONG = Verdict(Outcome.INCORRECT)


def right(point: float, low: float) -> Verdict:
    return Verdict(Outcome.FASTER if low > 1 else Outcome.SAME, speedup={"eager": Speedup(point, low, 2 * point)})


def drawn(*names: str, of: str = UNSEEN) -> Draw:
    return Draw(of, "task", "network", 1, SMALL, tuple(TEXTS[name] for name in names))


@pytest.mark.rotates
@pytest.mark.parametrize("name", TEXTS)
def test_the_chosen_source_is_the_one_that_an_attempt_judges(tmp_path: Path, name: str) -> None:
    texts = [TEXTS[name], TEXTS["no code"], TEXTS["unknown"], TEXTS["network"]]
    context = episode_context(tmp_path, texts)
    settings = EpisodeSettings(style="terse", language="triton", answers=DEPLOYMENT)
    with context.journal:
        turn = asyncio.run(sampled(context, Task(SMALL, "network"), settings, "s0r0t0", [Message("user", "a task")]))
    assert ablation.chosen(texts, drawn().context, DEPLOYMENT) == (turn.source, False)
    assert turn.source


def test_rungs_add_one_thing_each() -> None:
    row = planned(drawn("unknown", "right"), "a compiled kernel")
    sources = {rung: row.sources[name] for rung, name in row.rungs.items()}
    assert list(sources) == list(ladder.RUNGS) and sources["compiler"] == "a compiled kernel"
    assert "class Model(" not in sources["text"] and "def softmax" not in sources["text and task"]
    assert "class Model(" in sources["text and task"] and "def softmax" in sources["linked"]
    assert "somewhere" in sources["linked"] and "somewhere" not in sources["whole"]
    assert not planned(drawn("right", of="builtin")).rungs


@pytest.mark.rotates
def test_an_answer_is_judged_for_the_ablation_where_a_rule_changes_it() -> None:
    assert planned(drawn("right")).waves[1] == set() and len(planned(drawn("right")).waves[0]) == 3
    assert planned(drawn("no code")).waves == (set(), set())
    flagged, network = planned(drawn("unknown", "right")), planned(drawn("network"))
    assert flagged.variants["undefined_name"] == flagged.variants["all lint"] != flagged.variants[""]
    assert flagged.waves[1] == set(flagged.variants.values()) and len(network.waves[1]) == 2
    assert set(network.variants) == {"", "networks"} and "syntax" not in flagged.variants


@pytest.mark.parametrize(("names", "more"), [(["right"], False), (["unknown"], True), (["no code", "right"], False)])
def test_another_text_is_sampled_where_some_policy_would_ask_for_it(names: list[str], more: bool) -> None:
    assert ladder.wants_more(drawn(*names)) is more


def test_the_ladder_counts_modules_by_level() -> None:
    def row(number: int, **rungs: str) -> Planned:
        draw = replace(drawn("right"), task=str(number), level=number % 2 + 1)
        return Planned(draw, {**dict.fromkeys(ladder.RUNGS, "s"), **rungs}, {"": "s"}, {})

    verdicts = {("0", "s"): right(4.0, 2.0), ("1", "s"): right(1.1, 0.9), ("2", "s"): WRONG, ("4", "s"): right(1.0, 0.5)}
    rows = ladder.ladder_rows([*map(row, range(4)), row(4, text="")], verdicts)
    found = {(one["rung"], one["level"]): one for one in rows}
    counts = [found["whole", 1][name] for name in ("modules", "right", "faster", "surely_faster", "unjudged")]
    assert counts == [3, 2, 1, 1, 0] and found["whole", 1]["mean"] == pytest.approx(2.0)
    assert found["text", 1]["no_code"] == 1 and found["whole", 2]["unjudged"] == 1
    lines = list(ladder.table(rows))
    assert lines[0].endswith("| level 1 (3) | level 2 (2) |")
    assert lines[5] == "| with lint, resampling and repairs | 2 / 1 / 1, 2.00× | 1 / 1 / 0, 1.10× (1 not judged) |"


def test_a_rule_is_weighed_by_what_its_answers_would_have_been() -> None:
    rows = [(task, {"": "w", "networks": "x"}) for task in "abc"] + [("d", {"": "w", "networks": "w"}), ("e", {"": "w"})]
    verdicts = {("a", "w"): right(2, 1), ("a", "x"): WRONG, ("b", "w"): WRONG, ("b", "x"): right(2, 1), ("c", "w"): WRONG}
    found = ablation.summary(rows, verdicts)
    assert found["networks"] == {"changed": 3, "judged": 2, "helped": 1, "hurt": 1}
    assert found["syntax"] == {"changed": 0, "judged": 0, "helped": 0, "hurt": 0}
    ends = {count: next(line for line in ablation.table(found, count) if "networks" in line) for count in (50, 99, 101)}
    assert [line.split(" | ")[-1] for line in ends.values()] == ["stays |", "undecided |", "goes |"]


@pytest.mark.slow
def test_what_was_judged_is_not_judged_again(tmp_path: Path) -> None:
    """A real judge; kernels that fail at once, because no Triton runs here without a GPU."""
    row = drawn("no Python")
    (tmp_path / ladder.DRAWS).write_text(json.dumps(asdict(row)) + "\n")
    command = ["judge", str(tmp_path), "--device", "cpu", "--workers", "1", "--processes", "1"]
    for _ in range(2):
        done = CliRunner().invoke(ladder.app, command)
        assert done.exit_code == 0, done.output
    verdicts = [json.loads(line) for line in (tmp_path / ladder.VERDICTS).read_text().splitlines()]
    assert sorted(one["candidate"] for one in verdicts) == sorted(planned(row).waves[0])
    assert {one["outcome"] for one in verdicts} == {"compile_error"}
    told = CliRunner().invoke(ladder.app, ["report", str(tmp_path), "--processes", "1"])
    assert told.exit_code == 0 and "| the model's text alone | 0 / 0 / 0 |" in told.output


@pytest.mark.slow
def test_the_compilers_first_kernel_is_kept_beside_the_reason_for_none(tmp_path: Path) -> None:
    noise = SMALL.replace("self.fc(", "torch.rand_like(x) + self.fc(")
    ladder._compile(tmp_path, [Task(SMALL, "network"), Task(noise, "noise")], 2)
    made, refused = ladder.rows_in(tmp_path / ladder.COMPILED)
    assert "class ModelNew" in made["source"] and not made["refused"]
    assert refused["refused"] and not refused["source"]
