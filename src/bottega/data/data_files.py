"""The finished data on disk: a table for each side of the split, whole or not at all, in a form that Hugging Face `datasets` loads."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import BottegaError, UsageError
from bottega.core.files import write_atomic
from bottega.data.example import Example

SPLITS = ("train", "test")
FORMATS = ("jsonl", "parquet")


def write_examples(folder: Path, examples: Sequence[Example], form: str = "jsonl") -> list[Path]:
    """A file for each side; files of another run or form are taken away, so that a folder never holds two."""
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}; use {' or '.join(FORMATS)}")
    paths = []
    for split in SPLITS:
        of_split = [example for example in examples if example.split == split]
        path = folder / f"{split}.{form}"
        if of_split and form == "jsonl":
            write_whole(path, "".join(example.line() + "\n" for example in of_split).encode("utf-8", "replace"))
        elif of_split:
            write_whole(path, _parquet(of_split))
        if of_split:
            paths.append(path)
        for other in FORMATS:
            if (other != form or not of_split) and (folder / f"{split}.{other}").exists():
                (folder / f"{split}.{other}").unlink()
    return paths


def write_rows(folder: Path, split: str, rows: Sequence[Mapping[str, Any]]) -> Path | None:
    """Rows as they were read, for one side of the split; nothing where there are none."""
    path = folder / f"{split}.jsonl"
    if rows:
        write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "replace"))
        return path
    path.unlink(missing_ok=True)
    return None


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
            yield from _module("pyarrow.parquet").read_table(folder / f"{name}.parquet").to_pylist()
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


def hash_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parquet(examples: Sequence[Example]) -> bytes:
    arrow, parquet = _module("pyarrow"), _module("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist([example.row() for example in examples]), sink)
    return bytes(sink.getvalue())


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError("parquet needs an extra; install it with: pip install 'bottega[datasets]', or take jsonl") from None
