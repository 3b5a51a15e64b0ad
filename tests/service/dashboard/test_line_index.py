"""Logs that grow, break and change under the reader."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bottega.service.dashboard import line_index
from bottega.service.dashboard.line_index import LineIndex
from bottega.service.dashboard.reading import read_object, read_text


def index_of(path: Path) -> LineIndex[Any]:
    return LineIndex(path, lambda data: data.get("n"))


def test_what_was_added_is_read_and_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"n":1}\n')
    index = index_of(path).refresh()
    with open(path, "a") as file:
        file.write('{"n":2}\n{"n":3')
        file.flush()
        assert [line.row for line in index.refresh().lines] == [1, 2]
        assert index.unfinished == len('{"n":3') and "half written" in index.warnings()[0]
        file.write("}\n")
    assert [(line.number, line.row) for line in index.refresh().lines] == [(1, 1), (2, 2), (3, 3)]
    assert index.body(index.lines[2]) == {"n": 3} and not index.warnings()


def test_damaged_lines_are_told_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":\n[1]\n\xff\xfe\n\n' + b"[" * 100_000 + b'\n{"n":2}\n')
    index = index_of(path).refresh()
    assert [line.row for line in index.lines] == [1, 2]
    assert [each.number for each in index.broken] == [2, 3, 4, 6]
    assert index.numbered(7) is index.lines[1] and index.numbered(2) is None


def test_a_log_that_was_cut_or_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"n":1}\n{"n":2}\n')
    index = index_of(path).refresh()
    os.truncate(path, len('{"n":1}\n'))
    assert [line.row for line in index.refresh().lines] == [1]
    path.write_text('{"n":7}\n{"n":8}\n{"n":9}\n')
    assert [line.row for line in index.refresh().lines] == [7, 8, 9]
    path.unlink()
    assert not index.refresh().lines


def test_a_line_without_end_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "LONGEST_LINE", 1000)
    monkeypatch.setattr(line_index, "BLOCK", 256)
    path = tmp_path / "log"
    path.write_text('{"n":1}\n' + "x" * 5000 + '\n{"n":2}\n')
    index = index_of(path).refresh()
    assert [line.row for line in index.lines] == [1, 2] and "longer than" in index.broken[0].reason
    assert index.body(index.lines[1]) == {"n": 2}


def test_a_look_is_bounded_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "BLOCK", 64)
    path = tmp_path / "log"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(100)))
    index = index_of(path)
    index.refresh(128)
    assert 0 < len(index.lines) < 100 and index.unread
    while index.unread:
        index.refresh(128)
    assert [line.row for line in index.lines] == list(range(100))


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it for reading would wait for a writer
    (tmp_path / "secret").write_text('{"n":1}')
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_text(tmp_path / "pipe") is None and read_text(tmp_path / "link") is None
    assert read_object(tmp_path / "pipe") == {} and not index_of(tmp_path / "link").refresh().lines
