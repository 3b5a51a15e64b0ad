"""`bottega data`: what a user types, and what is said when it is wrong."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from hand_teacher import task
from judged_records import tell
from typer.testing import CliRunner, Result

from bottega.agents import writer
from bottega.agents.module_text import without_prose
from bottega.app.data_command import app, languages_of
from bottega.app.settings.data_build import DataBuildSettings
from bottega.compiler.strip import stripped
from bottega.core.errors import BottegaError, UsageError
from bottega.core.settings import checked
from bottega.data.settings import JudgeStage
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.task_columns import load_task_records
from bottega.data.teachers.chosen import compiler_pool_for, family_of

RUN = CliRunner()


def ran(*words: object) -> Result:
    return RUN.invoke(app, [str(word) for word in words])


def test_examples_stats_card_and_show(tmp_path: Path) -> None:
    tell(tmp_path)
    built = ran("build", "--stage", "examples", "--out", tmp_path, "held_out=0", "--json")
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
    (tmp_path / "silu_norm.py").write_text(task("silu_norm").source)
    out = tmp_path / "out"
    words = ("--stage", "teach", "--teacher", "compiler", "--languages", "cpp", "teachers=1", "--json")
    taught = ran("build", tmp_path / "silu_norm.py", *words, "--out", out)
    assert taught.exit_code == 0, taught.output
    told = json.loads(taught.output)
    assert (told["builds"], told["judged"], told["teacher"]) == (1, 0, "compiler 2")
    making = ("build", "--stage", "examples", "--out", out, "held_out=0", "--style", "terse", "--json")
    refused = ran(*making)
    assert isinstance(refused.exception, UsageError) and "unjudged=true" in str(refused.exception)
    made = ran(*making, "unjudged=true")
    assert made.exit_code == 0, made.output
    rows = [json.loads(line) for line in ran("show", out, "--json", "-n", 9).output.splitlines()]
    assert {row["kind"] for row in rows} <= {"first", "first_with_untried_skills"} and rows[0]["kind"] == "first"
    _, user, answer = (message["content"] for message in rows[0]["messages"])
    assert "t1 = mul(x, self.scale) 64x1024" in user and "class Model" not in user
    source = writer.parse(answer).source
    assert "class ModelNew(Model):" in source and "torch.empty((64, 1024)" in source
    with JudgedStore(out, create=False, write=False) as store:
        (judged_task,) = store.judged_tasks_of(rows[0]["task_id"], JudgeSetup("none", "none"))
        kept = [step.candidate.source for record in judged_task.teacher_records if record.build for step in record.build.steps]
    assert source in {stripped(without_prose(whole), task("silu_norm").source) for whole in kept}


@pytest.mark.slow
def test_the_plain_teacher_is_the_compiler_in_its_plain_style() -> None:
    stage = JudgeStage(teachers=1)
    for name, teacher in (("compiler", "compiler 2"), ("parts", "compiler 2 parts")):
        with closing(compiler_pool_for(name, stage)) as pool:
            assert pool.teacher == teacher and family_of(name) == "compiler"
    assert family_of("llm") == "llm" and family_of("parts:Teacher") == "parts:Teacher"
    said = re.sub(r"[\s│]+", " ", ran("build", "--help").output)
    assert "compiler (rule-based); parts: of its kernels the last of each task, for training a small model" in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["build"], "name the tasks"),
        (["build", "builtin:star_relu", "--stage", "both"], "stage = 'both'"),
        (["build", "builtin:star_relu", "--teacher", "nobody"], "unknown teacher 'nobody'"),
        (["build", "builtin:star_relu", "--languages", "fortran"], "unknown language 'fortran'"),
        (["build", "builtin:star_relu", "seeds=many"], "seeds = "),
        (["build", "builtin:star_relu", "held_out=1.5"], "held_out"),
        (["build", "--stage", "examples", "--out", "nowhere-at-all"], "no judged records"),
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
    def seeds(value: object) -> tuple[int, ...]:
        return checked(DataBuildSettings, {"seeds": value}, "test").seeds

    assert seeds("3") == seeds(3) == (0, 1, 2) and seeds("4,7,4") == seeds([4, 7]) == (4, 7)
    for value in ("0", "-1", "", "1,-2", 0):
        with pytest.raises(UsageError, match="seeds"):
            seeds(value)
    assert languages_of((), "cpu") == ("cpp",) and languages_of((), "cuda:1") == ("triton",)
    assert languages_of(("triton", "cuda", "triton"), "cuda") == ("triton", "cuda")


def test_columns_of_a_data_set_go_along(tmp_path: Path) -> None:
    source = (Path(__file__).parents[2] / "src/bottega/app/demo/task.py").read_text()
    rows = [
        {"code": source, "name": "one", "level": 2, "ops": ["silu", "mul"], "families": ["activations"], "structure": "chain"}
    ]
    rows.append({"code": "not python (", "name": "bad", "level": 1})
    table = tmp_path / "tasks.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"code": "cut off')
    (task_record,), problems = load_task_records([str(table)], "cpu")
    assert (task_record.ops, task_record.family, task_record.structure) == (("mul", "silu"), "activations", "chain")
    assert len(problems) == 2
    with pytest.raises(UsageError, match="no task could be loaded"):
        (tmp_path / "bad.jsonl").write_text(json.dumps(rows[1]) + "\n")
        load_task_records([str(tmp_path / "bad.jsonl")], "cpu")
