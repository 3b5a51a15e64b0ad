"""`bottega data`: what a user types, and what is said when it is wrong."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from hand_teacher import task
from told_material import tell
from typer.testing import CliRunner, Result

from bottega.agents import writer
from bottega.agents.module_text import without_prose
from bottega.app.data_command import app, languages_of, seeds_of
from bottega.app.data_teachers import builder_for, family_of
from bottega.compiler.strip import shortened
from bottega.core.errors import BottegaError, UsageError
from bottega.data.settings import JudgeStage
from bottega.data.store import Bench, Store
from bottega.data.task_columns import load_subjects

RUN = CliRunner()


def ran(*words: object) -> Result:
    return RUN.invoke(app, [str(word) for word in words])


def test_examples_stats_card_and_show(tmp_path: Path) -> None:
    tell(tmp_path)
    built = ran("build", "--stage", "examples", "--out", tmp_path, "--held-out", "0", "--json")
    assert built.exit_code == 0, built.output
    told = json.loads(built.output)
    assert told["examples"] == sum(told["counts"]["kind"].values()) > 5 and told["unreadable"] == []
    stats = json.loads(ran("stats", tmp_path, "--json").output)
    assert sum(stats["rows"].values()) == told["examples"]
    assert {row["axis"] for row in stats["coverage"]} >= {"role", "technique", "structure", "operators"}
    card = ran("card", tmp_path)
    assert card.exit_code == 0 and "# Cold-start data" in card.output and "hand 1" in card.output
    shown = ran("show", tmp_path, "--kind", "repair")
    assert "--- user ---" in shown.output and "--- assistant ---" in shown.output and "kind=repair" in shown.output
    row = json.loads(ran("show", tmp_path, "--json").output)
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    (tmp_path / "train.jsonl").write_text("")
    assert ran("card", tmp_path).exit_code == 1


@pytest.mark.slow
def test_what_was_only_taught_gives_examples_when_asked(tmp_path: Path) -> None:
    (tmp_path / "silu_chain.py").write_text(task("silu_chain").source)
    out = tmp_path / "out"
    words = ("--stage", "teach", "--teacher", "plain", "--languages", "cpp", "--teachers", 1, "--json")
    taught = ran("build", tmp_path / "silu_chain.py", *words, "--out", out)
    assert taught.exit_code == 0, taught.output
    told = json.loads(taught.output)
    assert (told["courses"], told["judged"], told["teacher"]) == (1, 0, "builder 1 plain")
    making = ("build", "--stage", "examples", "--out", out, "--held-out", 0, "--style", "terse", "--json")
    refused = ran(*making)
    assert isinstance(refused.exception, UsageError) and "--unjudged" in str(refused.exception)
    made = ran(*making, "--unjudged")
    assert made.exit_code == 0, made.output
    rows = [json.loads(line) for line in ran("show", out, "--json", "-n", 9).output.splitlines()]
    assert {row["kind"] for row in rows} <= {"first", "first_with_untried_skills"} and rows[0]["kind"] == "first"
    _, user, answer = (message["content"] for message in rows[0]["messages"])
    assert "t1 = mul(x, self.scale) 64x1024" in user and "class Model" not in user
    source = writer.parse(answer).source
    assert "class ModelNew(Model):" in source and "torch.empty((64, 1024)" in source
    with Store(out, create=False, write=False) as store:
        (lesson,) = store.lessons_of(rows[0]["task_id"], Bench("none", "none"))
        kept = [step.candidate.source for lecture in lesson.lectures if lecture.course for step in lecture.course.steps]
    assert source in {shortened(without_prose(whole), task("silu_chain").source) for whole in kept}


@pytest.mark.slow
def test_the_plain_teacher_is_the_builder_in_its_plain_style() -> None:
    stage = JudgeStage(teachers=1)
    for name, teacher in (("builder", "builder 1"), ("plain", "builder 1 plain"), ("parts", "builder 1 parts")):
        with closing(builder_for(name, stage)) as room:
            assert room.teacher == teacher and family_of(name) == "builder"
    assert family_of("llm") == "llm" and family_of("plain:Teacher") == "plain:Teacher"
    said = re.sub(r"[\s│]+", " ", ran("build", "--help").output)
    assert "plain: the builder in one plain hand, for --style terse; parts: of plain one kernel a task" in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["build"], "name the tasks"),
        (["build", "builtin:star_relu", "--stage", "both"], "unknown stage"),
        (["build", "builtin:star_relu", "--teacher", "nobody"], "unknown teacher"),
        (["build", "builtin:star_relu", "--languages", "fortran"], "unknown language"),
        (["build", "builtin:star_relu", "--seeds", "many"], "seeds"),
        (["build", "builtin:star_relu", "--held-out", "1.5"], "held-out"),
        (["build", "--stage", "examples", "--out", "nowhere-at-all"], "no judged material"),
        (["show", "nowhere-at-all"], "no examples there"),
        (["card", "nowhere-at-all"], "has no card.json"),
    ],
)
def test_wrong_usage_is_said(words: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = ran(*words)
    assert isinstance(result.exception, BottegaError) and what in str(result.exception)
    assert not (tmp_path / "nowhere-at-all").exists() and not (tmp_path / "cold-start").exists()


def test_seeds_and_languages() -> None:
    assert seeds_of("3") == (0, 1, 2) and seeds_of("4,7,4") == (4, 7)
    assert languages_of("", "cpu") == ("cpp",) and languages_of("", "cuda:1") == ("triton",)
    assert languages_of("triton, cuda,triton", "cuda") == ("triton", "cuda")
    for text in ("0", "-1", "", "1,-2"):
        with pytest.raises(UsageError, match="seeds"):
            seeds_of(text)


def test_columns_of_a_data_set_go_along(tmp_path: Path) -> None:
    source = (Path(__file__).parents[3] / "src/bottega/app/demo/task.py").read_text()
    rows = [
        {"code": source, "name": "one", "level": 2, "ops": ["silu", "mul"], "families": ["activations"], "structure": "chain"}
    ]
    rows.append({"code": "not python (", "name": "bad", "level": 1})
    table = tmp_path / "tasks.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"code": "cut off')
    (subject,), problems = load_subjects([str(table)], "cpu")
    assert (subject.ops, subject.family, subject.structure) == (("mul", "silu"), "activations", "chain")
    assert len(problems) == 2
    with pytest.raises(UsageError, match="no task could be loaded"):
        (tmp_path / "bad.jsonl").write_text(json.dumps(rows[1]) + "\n")
        load_subjects([str(tmp_path / "bad.jsonl")], "cpu")
