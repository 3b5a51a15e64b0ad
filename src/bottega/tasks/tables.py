"""Rows as the bytes of a table that Hugging Face `datasets` loads: JSON lines, or Parquet where the extra is installed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bottega.core.errors import UsageError

FORMATS = ("jsonl", "parquet")


def require_format(form: str) -> None:
    """`UsageError` for a form that is unknown or cannot be written here."""
    if form not in FORMATS:
        raise UsageError(f"format={form}: use {' or '.join(FORMATS)}")
    if form == "parquet":
        arrow_module("pyarrow.parquet")


def table_bytes(rows: Sequence[Mapping[str, Any]], form: str) -> bytes:
    if form == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "replace")
    arrow, parquet = arrow_module("pyarrow"), arrow_module("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(list(rows)), sink)
    return bytes(sink.getvalue())


def arrow_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError("parquet needs an extra; install it with: pip install 'bottega[datasets]', or take jsonl") from None
