"""How wide the vectors in a candidate's own machine code are: the code that it built is disassembled, and its arithmetic counted by width.

Runs in the candidate's process, where that code lies. It is evidence for a diagnosis and decides nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from bottega.judge.coverage import LARGEST_OWN_CODE, file_kind

MOST_FILES = 4
SECONDS = 20.0
_X86 = re.compile(r"\bv?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\d*)(?P<kind>[ps])[sd]\b[^\n]*?%(?P<register>[xyz])mm")
_ARM = re.compile(
    r"\bf(?:n?m)?(?:add|sub|mul|div|max|min|mla|mls|sqrt|maxnm|minnm)\s+(?P<register>v\d+\.\d+[a-z]|z\d+\.|[sd]\d+)"
)
_X86_BITS = {"x": 128, "y": 256, "z": 512}
SCALABLE = 1
"""Stands for the width of Arm's scalable vectors, which the code does not tell."""


def vector_instructions() -> dict[str, int]:
    """Counts of floating-point instructions by width in bits; `0` stands for scalars. Empty where nothing can be said."""
    tool = shutil.which("objdump")
    counts: dict[str, int] = {}
    for path in _own_files()[:MOST_FILES] if tool else []:
        try:
            ran = subprocess.run(
                [str(tool), "-d", "--no-show-raw-insn", path],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        for width, count in counted(ran.stdout).items():
            counts[str(width)] = counts.get(str(width), 0) + count
    return counts


def counted(listing: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for found in _X86.finditer(listing):
        width = _X86_BITS[found["register"]] if found["kind"] == "p" else 0
        counts[width] = counts.get(width, 0) + 1
    for found in _ARM.finditer(listing):
        register = found["register"]
        width = SCALABLE if register.startswith("z") else 128 if register.startswith("v") else 0
        counts[width] = counts.get(width, 0) + 1
    return counts


def _own_files() -> list[str]:
    """Files with executable mappings that were built in the sandbox, and are small enough to be a kernel."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = [line.split(maxsplit=5) for line in file]
    except OSError:
        return []
    sizes: dict[str, int] = {}
    for fields in lines:
        if len(fields) == 6 and "x" in fields[1]:
            low, _, high = fields[0].partition("-")
            path = fields[5].strip()
            sizes[path] = sizes.get(path, 0) + int(high, 16) - int(low, 16)
    return [path for path, size in sizes.items() if size <= LARGEST_OWN_CODE and file_kind(path, size) == "own"]
