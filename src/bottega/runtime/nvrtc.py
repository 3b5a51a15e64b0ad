"""Compiles a CUDA string with NVRTC to machine code for one GPU architecture. It needs no GPU, and no nvcc.

NVRTC knows no host headers; the few that kernels commonly include are given to it from here, so that a source written
for nvcc compiles unchanged.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cache import build_once
from .diagnostics import compile_error
from .errors import CompileError, UnavailableError
from .toolkit import include_folders, nvrtc_path

_FILE = "kernel.cu"
_PRELUDE = "bottega_prelude.h"
_PRELUDE_TEXT = """\
#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t; typedef unsigned int uint;
namespace std { using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t; using ::int32_t; using ::uint32_t;
using ::int64_t; using ::uint64_t; using ::intptr_t; using ::uintptr_t; using ::size_t; }
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#define HUGE_VALF INFINITY
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_1_PI 0.31830988618379067154
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX - 1)
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#define INT64_MAX LLONG_MAX
#define INT64_MIN LLONG_MIN
"""
_HOST_HEADERS = ("stdint", "stddef", "limits", "float", "math", "stdio", "stdlib", "string", "assert")
_HEADERS = {
    _PRELUDE: _PRELUDE_TEXT,
    **dict.fromkeys(
        [f"{name}.h" for name in _HOST_HEADERS] + [f"c{name}" for name in _HOST_HEADERS],
        "#pragma once\n",
    ),
}


def compile_cuda(source: str, options: Sequence[str], capability: tuple[int, int]) -> bytes:
    """Machine code for GPUs of this compute capability, kept by the content of source, options and compiler.

    Where NVRTC is older than the GPU, it is PTX instead, which the driver compiles.
    """
    library = nvrtc_path()
    facts = Path(library).stat() if os.path.exists(library) else None
    identity = f"{library} {facts.st_size} {facts.st_mtime_ns}" if facts else library

    def build(folder: Path) -> Path:
        result = folder / "image.bin"
        result.write_bytes(_compiled(load_nvrtc(library), source, tuple(options), capability))
        return result

    ingredients = ["cuda", source, *options, identity, str(capability), _PRELUDE_TEXT, os.environ.get("CUDA_HOME", "")]
    return build_once(ingredients, ".bin", build).read_bytes()


@functools.cache
def load_nvrtc(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise UnavailableError(f"NVRTC cannot be loaded: {error}; reinstall nvidia-cuda-nvrtc, or set CUDA_HOME") from None
    program, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    texts, numbers = ctypes.POINTER(text), ctypes.POINTER(ctypes.c_int)
    for name, arguments in {
        "nvrtcVersion": [numbers, numbers],
        "nvrtcGetNumSupportedArchs": [numbers],
        "nvrtcGetSupportedArchs": [numbers],
        "nvrtcCreateProgram": [ctypes.POINTER(program), text, text, ctypes.c_int, texts, texts],
        "nvrtcCompileProgram": [program, ctypes.c_int, texts],
        "nvrtcDestroyProgram": [ctypes.POINTER(program)],
        **{f"nvrtcGet{what}Size": [program, ctypes.POINTER(size)] for what in ("ProgramLog", "CUBIN", "PTX")},
        **{f"nvrtcGet{what}": [program, ctypes.c_char_p] for what in ("ProgramLog", "CUBIN", "PTX")},
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.nvrtcGetErrorString.argtypes, library.nvrtcGetErrorString.restype = [ctypes.c_int], text
    return library


def _compiled(nvrtc: ctypes.CDLL, source: str, options: tuple[str, ...], capability: tuple[int, int]) -> bytes:
    if "\0" in source:
        raise CompileError("NVRTC refused the source:\nerror: it holds a zero byte")
    major = _version(nvrtc)[0]
    defaults = ["--device-as-default-execution-space", f"--pre-include={_PRELUDE}"]
    defaults += [f"--include-path={folder}" for folder in include_folders(major)]
    if not any(option.startswith(("-std", "--std")) for option in options):
        defaults.append("--std=c++17")
    if not any(option.startswith(("-arch", "--gpu-architecture")) for option in options):
        defaults.append(f"--gpu-architecture={architecture(nvrtc, capability)}")
    program = ctypes.c_void_p()
    names, texts = _texts(_HEADERS), _texts(_HEADERS.values())
    _checked(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(errors="replace"), _FILE.encode(), len(_HEADERS), texts, names
        ),
    )
    try:
        given = [*defaults, *options]
        status = nvrtc.nvrtcCompileProgram(program, len(given), _texts(given))
        if status != 0:
            log = _part(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            log = log or nvrtc.nvrtcGetErrorString(status).decode()
            raise compile_error(log, source, _FILE, "NVRTC", _hint(log))
        return _part(nvrtc, program, "CUBIN") or _part(nvrtc, program, "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def architecture(nvrtc: ctypes.CDLL, capability: tuple[int, int]) -> str:
    """Machine code for exactly this GPU; for one that NVRTC does not know yet, PTX of the newest kind that it does."""
    count = ctypes.c_int()
    _checked(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    known = (ctypes.c_int * count.value)()
    _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs(known))
    number = capability[0] * 10 + capability[1]
    if number in known:
        # From Hopper on, the instructions of one architecture alone (wgmma, setmaxnreg) want the suffix.
        return f"sm_{number}{'a' if number >= 90 and _version(nvrtc) >= (12, 0) else ''}"
    older = [known_number for known_number in known if known_number < number]
    if not older:
        raise UnavailableError(
            f"this NVRTC ({'.'.join(map(str, _version(nvrtc)))}) no longer compiles for compute capability "
            f"{capability[0]}.{capability[1]}; install an older CUDA"
        )
    return f"compute_{max(older)}"


def _version(nvrtc: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _checked(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _part(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) != 0 or size.value == 0:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _texts(values: Any) -> Any:
    encoded = [value.encode(errors="replace") for value in values]
    return (ctypes.c_char_p * max(len(encoded), 1))(*encoded)


def _hint(log: str) -> str:
    if "cannot open source file" not in log:
        return ""
    return "hint: NVRTC knows no host headers; mma.h, cuda/ and nv/ come with a CUDA toolkit (CUDA_HOME) or nvidia-cuda-cccl"


def _checked(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise UnavailableError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(status).decode()}; reinstall nvidia-cuda-nvrtc")
