"""A copy of an SQLite file to look into. Even a reader of the file itself would take part in its locks and could keep its log from being folded in;
a copy cannot be in anyone's way. Both files must have stood still while they were copied: then the copy is one moment's state."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bottega.core.errors import BottegaError
from bottega.service.dashboard.reading import read_bytes, stamp

LARGEST = 256 << 20
TRIES = 5


class NoCopy(BottegaError):
    """Why a database cannot be looked into now."""


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A folder that holds the copy under the file's own name, for as long as it is needed."""
    beside = path.with_name(f"{path.name}-wal")
    with tempfile.TemporaryDirectory(prefix="bottega-dashboard-") as place:
        folder = Path(place)
        for _ in range(TRIES):
            before = stamp(path), stamp(beside)
            if before[0] is None:
                raise NoCopy(f"{path.name}: is not there")
            sizes = [found.size if found is not None else 0 for found in before]
            if sum(sizes) > LARGEST:
                raise NoCopy(f"{path.name}: has {sum(sizes) >> 20:,} MiB, and up to {LARGEST >> 20} MiB are looked into")
            try:
                for file, size in zip((path, beside), sizes):
                    if size:
                        (folder / file.name).write_bytes(read_bytes(file, most=size))
            except OSError as error:
                raise NoCopy(f"{path.name}: cannot be read ({error.strerror})") from None
            if before == (stamp(path), stamp(beside)):
                yield folder
                return
            time.sleep(0.05)
        raise NoCopy(f"{path.name}: is being written all the time; look again")
