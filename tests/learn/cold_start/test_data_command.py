"""`bottega data`: what a user types, and what is said when it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from told_material import tell
from typer.testing import CliRunner, Result

from bottega.app.data_command import app, languages_of, seeds_of
from bottega.core.errors import BottegaError, UsageError
from bottega.learn.cold_start.subjects import load_subjects

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
