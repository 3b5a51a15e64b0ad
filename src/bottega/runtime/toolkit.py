"""Where NVRTC and the CUDA headers lie on this machine: pip's nvidia packages beside torch first, then a CUDA toolkit.

Torch's own NVRTC comes first because it is known to suit the driver that torch runs on.
"""

from __future__ import annotations

import ctypes.util
import functools
import importlib.util
import os
import re
import sys
from pathlib import Path

from .errors import UnavailableError

_VERSION = re.compile(rb"#define\s+CUDART_VERSION\s+(\d+)")


@functools.cache
def nvrtc_path() -> str:
    """The NVRTC library to load: a path, or a name that the loader knows."""
    wanted = str(getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None) or "").split(".")[0]
    found = [
        path
        for folder in _library_folders()
        for path in sorted(folder.glob("libnvrtc*.so*"), reverse=True)
        if "builtins" not in path.name and ".alt." not in path.name
    ]
    found.sort(key=lambda path: not (wanted and f".so.{wanted}" in path.name))  # stable: else in order of the folders
    if found:
        return str(found[0])
    if name := ctypes.util.find_library("nvrtc"):
        return name
    raise UnavailableError(
        "NVRTC, NVIDIA's run-time compiler, was not found; a CUDA build of torch brings it, "
        "else pip install nvidia-cuda-nvrtc or set CUDA_HOME to a CUDA toolkit"
    )


@functools.cache
def include_folders(major: int) -> tuple[str, ...]:
    """Folders with CUDA headers of NVRTC's own major version, for cuda_fp16.h, mma.h and their like."""
    folders = [path for root in _pip_folders() for path in sorted(root.glob("*/include"))]
    folders += [home / "include" for home in _toolkits()]
    folders += [path for home in _toolkits() for path in sorted(home.glob("targets/*/include"))]
    suitable = [folder for folder in folders if folder.is_dir() and _major(folder) in (None, major)]
    suitable += [folder / "cccl" for folder in suitable if (folder / "cccl").is_dir()]
    return tuple(dict.fromkeys(str(folder) for folder in suitable))


def _library_folders() -> list[Path]:
    folders = [path for root in _pip_folders() for path in sorted(root.glob("*/lib"))]
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__:
        folders.append(Path(torch.__file__).parent / "lib")
    for home in _toolkits():
        folders += [home / "lib64", home / "lib", *sorted(home.glob("targets/*/lib"))]
    return [folder for folder in folders if folder.is_dir()]


def _pip_folders() -> list[Path]:
    """Site-packages' `nvidia` folders, which hold one folder per package (or `cu13`, for all of them)."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def _toolkits() -> list[Path]:
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(home) for home in (*named, "/usr/local/cuda", "/opt/cuda") if home and Path(home).is_dir()]


def _major(folder: Path) -> int | None:
    """The CUDA version of a folder of headers; None where it holds no runtime headers, only additions to them."""
    try:
        with open(folder / "cuda_runtime_api.h", "rb") as file:
            found = _VERSION.search(file.read(65536))
    except OSError:
        return None
    return int(found[1]) // 1000 if found else None
