"""Whether tensors on the disk have the bytes that were written: by the checksums that torch writes with each of them and does not look at.

It would go on with damaged weights. Of several ranks each reads a share: a checkpoint of 8B parameters has 98 GB.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import torch.distributed.checkpoint as dcp


def damage(folder: Path, rank: int = 0, size: int = 1) -> str:
    """What is wrong with one rank's share of a folder in torch's distributed format; empty where nothing is."""
    try:
        places = dcp.FileSystemReader(folder).read_metadata().storage_data.values()
        parts = sorted({(each.length, each.relative_path, each.offset) for each in places}, reverse=True)
        for length, name, offset in parts[rank::size]:  # by size, so that shares are alike
            _require_intact(folder / name, offset, length)
    except Exception as error:  # pickle raises whatever the bytes happen to mean
        return f"it is damaged ({type(error).__name__}: {str(error)[:200]})"
    return ""


def damage_of_file(path: Path) -> str:
    """The same of what `torch.save` wrote."""
    try:
        _require_intact(path, 0, path.stat().st_size)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return f"it is damaged ({type(error).__name__}: {str(error)[:200]})"
    return ""


def _require_intact(path: Path, offset: int, length: int) -> None:
    with open(path, "rb") as file:
        file.seek(offset)
        content = io.BytesIO(file.read(length))
    with zipfile.ZipFile(content) as archive:
        if archive.testzip() is not None:
            raise ValueError(f"{path.name} has other bytes than were written")
