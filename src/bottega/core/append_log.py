"""A file of JSON lines that one process appends to and any number read: a line is on the disk before anyone is told of it.

A last line without an end was cut by a kill and never reported: readers leave it out, and the next writer cuts it off. Any other damage is an
error that names file and line.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from bottega.core.errors import BottegaError, UsageError
from bottega.core.files import read_regular

T = TypeVar("T")


class AppendLog:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "ab")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path.parent}: no run can be kept there: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise UsageError(
                f"{path.parent}: another process is writing this run; wait for it, or give another --out"
            ) from None

    def cut_partial_line(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)

    def append(self, data: dict[str, Any]) -> None:
        line = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise BottegaError(
                f"{self.path}: cannot be written ({error.strerror}); the run stops here and can be resumed, by the same command or with --resume"
            ) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of a full disk: what could not be written was said, and never counted
            self._file.close()


def read_lines(
    path: Path, make: Callable[[dict[str, Any]], T], on_cut: Callable[[str], None] | None = None
) -> Iterator[tuple[int, T]]:
    """What `make` makes of each line, with the line's number; nothing where there is no file."""
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    *whole, cut = content.split(b"\n")
    for number, line in enumerate(whole, 1):
        try:
            data = json.loads(line.decode("utf-8", "surrogatepass"))
            if not isinstance(data, dict):
                raise ValueError("it is no object")
            found = make(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"{path}: line {number} is damaged ({type(error).__name__}: {error}); remove it to go on without what it held"
            ) from None
        yield number, found
    if cut and on_cut is not None:
        on_cut(f"{path}: its last line was cut by a kill and is left out; it was never counted")
