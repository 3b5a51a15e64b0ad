"""The finished data on disk: a table for each side of the split, whole or not at all, in a form that Hugging Face `datasets` loads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import BottegaError, UsageError
from bottega.core.files import write_atomic
from bottega.tasks.tables import FORMATS, arrow_module, require_format, table_bytes

SPLITS = ("train", "test")


def write_rows(folder: Path, rows: Sequence[Mapping[str, Any]], form: str = "jsonl") -> list[Path]:
    """A file for each side of the split; files of another run or form are taken away, so that a folder never holds two."""
    require_format(form)
    paths = []
    for split in SPLITS:
        of_split = [row for row in rows if row["split"] == split]
        for other in FORMATS:
            if other != form or not of_split:
                (folder / f"{split}.{other}").unlink(missing_ok=True)
        if of_split:
            paths.append(folder / f"{split}.{form}")
            write_whole(paths[-1], table_bytes(of_split, form))
    return paths


def read_rows(folder: Path, split: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of finished data. A line that cannot be read is an error that names it."""
    found = False
    for name in SPLITS if split is None else (split,):
        path = folder / f"{name}.jsonl"
        if path.is_file():
            found = True
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    try:
                        row = json.loads(line)
                        if not isinstance(row, dict):
                            raise ValueError("not an object")
                    except ValueError as error:
                        raise UsageError(
                            f"{path}: line {number} is damaged ({error}); `bottega data build --stage examples` makes the file again"
                        ) from None
                    yield row
        elif (folder / f"{name}.parquet").is_file():
            found = True
            yield from arrow_module("pyarrow.parquet").read_table(folder / f"{name}.parquet").to_pylist()
    if not found:
        raise UsageError(f"{folder}: no examples there; `bottega data build` makes them")


def write_whole(path: Path, content: bytes) -> None:
    """All or nothing: what was there stays until the new file is whole."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise BottegaError(
            f"{path}: cannot be written: {error.strerror}; free some space and run --stage examples again: the material is safe"
        ) from None
