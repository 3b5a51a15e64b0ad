"""Rows read from bare pages are the rows that SQLite wrote, and pages of anything else are none."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bottega.skills.pages import SIZE, rows_of_pages


def written(path: Path, rows: list[tuple[Any, ...]]) -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (row INTEGER PRIMARY KEY, a, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return path.read_bytes()


def test_values_of_every_kind_and_length_are_read_as_they_were_written(tmp_path: Path) -> None:
    numbers = [0, 1, -1, 127, -128, 2**15, -(2**15), 2**23, 2**31, 2**47, 2**62, -(2**63), None]
    texts = ["", "x", "é読🚀", "y" * 100, "z" * 4000, "z" * 4060, "z" * 4061, "w" * 4062, "v" * 9000, "u" * 100_000]
    rows = [(n + 1, number, text, text.encode() * 2) for n, (number, text) in enumerate(zip(numbers * 2, texts * 2))]
    data = written(tmp_path / "a.db", rows)
    found = {number: tuple(values[1:]) for number, values in rows_of_pages(data, 4)}
    assert {number: values for number, *values in map(list, rows)} == {n: list(v) for n, v in found.items()}
    assert list(rows_of_pages(data, 3)) == []


def test_rows_are_found_without_the_pages_that_lead_to_them(tmp_path: Path) -> None:
    rows = [(n, n, f"text {n} " * 30, None) for n in range(1, 300)]
    data = bytearray(written(tmp_path / "a.db", rows))
    data[: 2 * SIZE] = bytes(2 * SIZE)
    assert {number for number, _ in rows_of_pages(bytes(data), 4)} == set(range(1, 300))


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_row_and_no_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(written(tmp_path / "a.db", [(n, n, "x" * chance.randrange(6000), None) for n in range(1, 60)]))
    for _ in range(300):
        data[chance.randrange(len(data))] = chance.randrange(256)
    assert len(list(rows_of_pages(bytes(data), 4))) <= 400
    leaf = b"\x0d" + chance.randbytes(SIZE - 1)
    list(rows_of_pages(bytes(SIZE) + leaf * 20, 4))
    assert list(rows_of_pages(chance.randbytes(1000), 4)) == [] == list(rows_of_pages(b"", 4))
