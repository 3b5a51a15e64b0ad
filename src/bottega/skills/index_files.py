"""The files of the search index: the pointer that names the folder in use, and whether what is in that folder is whole."""

from __future__ import annotations

import json
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path

from bottega.core.atomic_file import write_atomic

FORMAT = 2
"""Raised when documents or analysis change: an index of another format is built anew."""
_POINTER = "current.json"


@dataclass(frozen=True)
class IndexPointer:
    """Which folder is in use, and what it covers."""

    generation: str
    library: str
    version: int
    documents: int
    last: str = ""
    """The last row it covers, told apart: a database put back from an older copy comes to the same version with other cards."""
    format: int = FORMAT


def read_pointer(folder: Path) -> IndexPointer | None:
    """Nothing when it is missing, garbage, of another format, or names no folder."""
    try:
        pointer = IndexPointer(**json.loads((folder / _POINTER).read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    kinds = (str, str, int, int, str, int)
    whole = tuple(map(type, pointer.__dict__.values())) == kinds and pointer.format == FORMAT
    return pointer if whole and (folder / pointer.generation).is_dir() else None


def write_pointer(folder: Path, pointer: IndexPointer) -> IndexPointer:
    write_atomic(folder / _POINTER, json.dumps(pointer.__dict__).encode())
    return pointer


def last_row(connection: sqlite3.Connection, version: int) -> str:
    query = "SELECT row, name, state, hash FROM cards WHERE valid_from <= ? ORDER BY valid_from DESC, row DESC LIMIT 1"
    row = connection.execute(query, (version,)).fetchone()
    return " ".join(map(str, row)) if row else ""


def segment_files(place: Path) -> list[Path]:
    """The files of the segments in use. Others may be half-written: a killed writer leaves some."""
    segments = json.loads((place / "meta.json").read_text())["segments"]
    names = {segment["segment_id"].replace("-", "") for segment in segments}
    return [file for file in place.iterdir() if file.name[:32] in names]


def check_sum(file: Path) -> None:
    """Tantivy ends each file with a checksum of it, and does not look at it when it opens one. Such a file never changes."""
    data = file.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    if json.loads(data[-8 - length : -8])["crc"] != zlib.crc32(memoryview(data)[: -8 - length]):
        raise ValueError(f"{file.name} is damaged")
