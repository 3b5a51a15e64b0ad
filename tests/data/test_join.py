"""Data folders joined: rows once, what one holds out held out by all, and nothing like tasks to stay away from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from module_task import module_task
from typer.testing import CliRunner

from bottega.app.data_command import app
from bottega.core.files import file_sha256
from bottega.core.task import Task
from bottega.data.data_card import changed_files, read_card, write_card
from bottega.data.data_files import read_rows, write_rows
from bottega.data.join import joined

CHAIN = module_task("torch.tanh(torch.relu(x) * 2.0)", "torch.randn(4, 8)")
GRAPH = "forward(x)\nx 9x9\nt1 = relu(x) 9x9\nt2 = mul(t1, 3.5) 9x9\nt3 = tanh(t2) 9x9\nreturn t3"


def row(number: int, split: str = "train", ops: str = "", role: str = "write", prompt: str = "") -> dict[str, Any]:
    said = [{"role": "user", "content": prompt or f"task {number}"}, {"role": "assistant", "content": f"answer {number}"}]
    return {
        "id": f"row{number}", "messages": said, "role": role, "kind": "first" if role == "write" else role, "split": split,
        "ops": [ops or f"op{number}"],
        "task_id": f"t{number}", "language": "cpp", "level": 1, "family": "f", "outcome": "", "tokens": 10 * number,
    }  # fmt: skip


def folder(place: Path, *rows: dict[str, Any], style: str = "terse") -> Path:
    place.mkdir()
    files = write_rows(place, rows)
    card: dict[str, Any] = {
        "made_at": "now", "examples": len(rows), "splits": {}, "counts": {}, "coverage": [], "left_out": {}, "unreadable": [], "material": {},
        "tokens": {"counted_by": "the tokenizer of embedded", "total": 1, "median": 1, "longest": 1}, "teachers": ["compiler"], "judge": "none",
        "device": "none", "tasks_from": [place.name], "seeds": [0], "style": style,
        "files": {path.name: {"sha256": file_sha256(path), "bytes": path.stat().st_size} for path in files},
    }  # fmt: skip
    write_card(place, card)
    return place


def test_rows_come_once_and_what_is_held_out_anywhere_is_held_out(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", row(1), row(2), row(3, "test", "shared"))
    two = folder(tmp_path / "two", row(2), row(4, ops="shared"), row(5))
    whole = joined([one, two])
    assert [found["id"] for found in whole.rows] == ["row1", "row2", "row3", "row5"]
    assert whole.left_out == {"there already": 1, "operators that another folder holds out": 1}
    assert whole.sources == {"one": 3, "two": 1}


@pytest.mark.rotates
def test_a_task_to_stay_away_from_takes_rows_with_its_calls_along(tmp_path: Path) -> None:
    place = folder(
        tmp_path / "one", row(1, prompt=GRAPH), row(2, prompt=GRAPH.replace("tanh", "exp")), row(3, "test", prompt=GRAPH)
    )
    assert [found["id"] for found in joined([place], [Task(CHAIN, "chain")]).rows] == ["row2", "row3"]


def test_the_command_writes_rows_and_a_card_that_holds(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", row(1), row(2, role="select"))
    two = folder(tmp_path / "two", row(3), row(4, "test"))
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["join", str(one), str(two), "--times", "select=3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    card = read_card(out)
    assert (
        changed_files(out, card) == [] and card["splits"] == {"train": 5, "test": 1} and card["joined"] == {"one": 4, "two": 2}
    )
    assert card["counts"]["role"] == {"write": 3, "select": 3} and card["tokens"]["total"] == 10 + 3 * 20 + 30 + 40
    assert sorted(found["id"] for found in read_rows(out, "train")) == ["row1", "row2", "row2", "row2", "row3"]
    assert CliRunner().invoke(app, ["card", str(out)]).exit_code == 0
    assert CliRunner().invoke(app, ["stats", str(out)]).exit_code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--times", "select"], "--times select"),
        (["--times", "cook=2"], "--times cook=2"),
        (["--times", "select=0"], "select=0"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, options: list[str], told: str) -> None:
    one = folder(tmp_path / "one", row(1))
    done = CliRunner().invoke(app, ["join", str(one), "--out", str(tmp_path / "out"), *options])
    assert done.exit_code and told in str(done.exception)


def test_other_styles_changed_rows_and_its_own_folder_are_refused(tmp_path: Path) -> None:
    one, full = folder(tmp_path / "one", row(1)), folder(tmp_path / "full", row(2), style="full")
    out = str(tmp_path / "out")
    assert "several styles" in str(CliRunner().invoke(app, ["join", str(one), str(full), "--out", out]).exception)
    assert "is one of the folders" in str(CliRunner().invoke(app, ["join", str(one), "--out", str(one)]).exception)
    (one / "train.jsonl").write_text(json.dumps(row(7)) + "\n")
    assert "changed since the card" in str(CliRunner().invoke(app, ["join", str(one), "--out", out]).exception)


def test_a_folder_that_is_no_data_of_ours_is_told_in_one_line(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "train.jsonl").write_text('{"messages": []}\n')
    done = CliRunner().invoke(app, ["join", str(foreign), "--out", str(tmp_path / "out")])
    assert "has no card.json" in str(done.exception) and "\n" not in str(done.exception)
