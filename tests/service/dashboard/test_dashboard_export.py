"""A run as one file: the same views, linked inside of it, and nothing that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_runs import HOSTILE, bench, library, search, training
from typer.testing import CliRunner

from bottega.app.cli import app
from bottega.core.errors import UsageError
from bottega.service.dashboard import export
from bottega.service.dashboard.export import exported


def linked(text: str) -> None:
    """Every link leads to a place in the file."""
    targets = set(re.findall(r'href="#(\w+)"', text))
    assert targets and targets <= set(re.findall(r' id="(\w+)"', text))
    assert not re.search(r'(src|href)="(?!#)', text) and "<script" not in text and "<form" not in text and "<input" not in text


def test_a_search_with_every_kernel(tmp_path: Path) -> None:
    text = exported(search(tmp_path / "search", hostile=True))
    linked(text)
    assert "+c = 5" in text and "40% of the roofline" in text and HOSTILE not in text
    assert "default-src 'none'" in text.replace("&#x27;", "'")


def test_every_kind_can_be_shared(tmp_path: Path) -> None:
    linked(exported(bench(tmp_path / "bench")))
    text = exported(training(tmp_path / "rl"))
    linked(text)
    assert "log-prob -3.000" in text
    linked(exported(library(tmp_path / "cards")))


def test_what_is_too_much_for_a_file_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_VIEWS", 5)
    text = exported(bench(tmp_path / "bench"))
    linked(text)
    assert re.search(r"\d+ more views are left out", text)


def test_the_command(tmp_path: Path) -> None:
    search(tmp_path / "search")
    place = tmp_path / "shared.html"
    answer = CliRunner().invoke(app, ["dashboard", str(tmp_path / "search"), "--export", str(place)])
    assert answer.exit_code == 0 and place.read_text().startswith("<!doctype html>")
    for words in (["nowhere"], [str(tmp_path), "--export", str(place)], [str(tmp_path), str(tmp_path), "--export", str(place)]):
        assert isinstance(CliRunner().invoke(app, ["dashboard", *words]).exception, UsageError)
