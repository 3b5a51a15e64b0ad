"""What a measurement was made on and with: device, software, judge version. Read without torch in the judge's process."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bottega import __version__

JUDGE_VERSION = "23"
"""Raised whenever the same candidate could get another verdict than before."""


@cache
def fingerprint(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "judge": JUDGE_VERSION,
        "bottega": __version__,
        "device": device,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "compiler": _first_line(["g++", "--version"]),
    }
    if device != "cpu":
        found["gpu"] = _gpu(device)
    return found


def _gpu(device: str) -> str:
    index = device.partition(":")[2] or "0"
    return _first_line(
        [
            "nvidia-smi",
            f"--id={index}",
            "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem",
            "--format=csv,noheader",
        ]
    )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))), platform.machine()
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _first_line(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return output.splitlines()[0].strip() if output.strip() else ""
