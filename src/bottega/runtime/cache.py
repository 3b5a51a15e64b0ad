"""A folder of build results, found by a hash of everything that went into them.

A result's own digest is its file name, so one atomic rename publishes it: a build that was killed leaves nothing that
looks finished, concurrent builds cannot mix, and a damaged file is noticed and built again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .errors import UnavailableError

_WORK = ".work-"
_ABANDONED_AFTER_S = 3600.0


def build_folder() -> Path:
    """`$BOTTEGA_BUILD_DIR`, or a folder of this user's alone among the temporary files."""
    chosen = os.environ.get("BOTTEGA_BUILD_DIR")
    user = getattr(os, "getuid", lambda: 0)()
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"bottega-build-{user}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise _unusable(folder, error) from None
    if not chosen and (not stat.S_ISDIR(facts.st_mode) or facts.st_uid != user or facts.st_mode & 0o077):
        # Code is loaded from here: a folder that somebody else prepared, or may write to, will not do.
        return Path(tempfile.mkdtemp(prefix="bottega-build-"))
    return folder


def build_once(ingredients: Sequence[str], suffix: str, build: Callable[[Path], Path], *, fresh: bool = False) -> Path:
    """The result for these ingredients: the stored one where it is intact, else what `build` makes in a folder of its own.

    `fresh` builds in any case, for a stored result that could not be used.
    """
    root = build_folder()
    key = hashlib.sha256("\0".join(ingredients).encode(errors="surrogatepass")).hexdigest()[:32]
    entry_folder = root / key
    if not fresh and (stored := _intact(entry_folder, suffix)):
        return stored
    try:
        _sweep(root)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=root))
    except OSError as error:
        raise _unusable(root, error) from None
    try:
        result = build(work)
        entry_folder.mkdir(mode=0o700, exist_ok=True)
        published = entry_folder / (hashlib.sha256(result.read_bytes()).hexdigest()[:32] + suffix)
        os.replace(result, published)
        return published
    except OSError as error:
        raise _unusable(root, error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _intact(entry_folder: Path, suffix: str) -> Path | None:
    """A stored result whose content still has the digest that it is named by; damaged ones are removed."""
    try:
        entries = sorted(entry_folder.iterdir())
    except OSError:
        return None
    for entry in entries:
        with suppress(OSError):
            if entry.suffix == suffix and entry.stem == hashlib.sha256(entry.read_bytes()).hexdigest()[:32]:
                return entry
            entry.unlink()
    return None


def _sweep(root: Path) -> None:
    """Remove the working folders of builds that were killed."""
    oldest = time.time() - _ABANDONED_AFTER_S
    for entry in root.glob(_WORK + "*"):
        with suppress(OSError):
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry, ignore_errors=True)


def _unusable(folder: Path, error: OSError) -> UnavailableError:
    return UnavailableError(f"cannot build in {folder}: {error.strerror or error}; set BOTTEGA_BUILD_DIR to a writable folder")
