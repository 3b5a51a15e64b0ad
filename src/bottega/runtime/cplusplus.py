"""Compiles a C++ string to a shared library and calls its `extern "C"` functions with tensors.

Plain functions and plain pointers instead of torch's headers: a third of a second instead of half a minute.
The default flags keep fp32 exact: no reassociation, only what IEEE arithmetic cannot tell apart.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .arguments import converters, wrong_argument_count
from .cache import build_once
from .diagnostics import compile_error
from .errors import ArgumentError, CompileError, UnavailableError
from .signature import Signature, read_signatures

_FILE = "source.cpp"
_FLAGS = ("-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", "-fdiagnostics-color=never")
_NATIVE = ("-march=native", "-mcpu=native")
_CTYPES: dict[str, Any] = {
    "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16,
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64,
    "f": ctypes.c_float, "d": ctypes.c_double, "?": ctypes.c_bool,
}  # fmt: skip


def cpp(source: str, flags: Sequence[str] = ()) -> CppLibrary:
    """Compile `source` and load it. `flags` come after the defaults and so may overrule them.

    The result is kept by the content of source, flags, compiler and processor. Headers of your own that the source
    includes are not part of that: put their text into the source.
    """
    flags = tuple(flags.split()) if isinstance(flags, str) else tuple(flags)
    compiler, version, native = _compiler(os.environ.get("CXX", ""))
    command = [compiler, *native, *_FLAGS, *flags]

    def build(folder: Path) -> Path:
        (folder / _FILE).write_text(source, encoding="utf-8", errors="surrogatepass")
        result = folder / "library.so"
        ran = subprocess.run(
            [*command, "-x", "c++", _FILE, "-o", result.name],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if ran.returncode != 0:
            log = ran.stderr.decode(errors="replace")
            raise compile_error(log or f"it ended with status {ran.returncode}", source, _FILE, Path(compiler).name)
        return result

    ingredients = ["cpp", source, *command, version, _processor()]
    path = build_once(ingredients, ".so", build)
    try:
        handle = ctypes.CDLL(str(path))
    except OSError:  # intact, but removed meanwhile, or built against a library that is gone
        path = build_once(ingredients, ".so", build, fresh=True)
        try:
            handle = ctypes.CDLL(str(path))
        except OSError as error:
            raise UnavailableError(
                f"the compiled library cannot be loaded: {error}; "
                "if its folder forbids executables, set BOTTEGA_BUILD_DIR to another"
            ) from None
    library = CppLibrary(source, flags, handle)
    if not library._found and not library._refused:
        raise CompileError('no function was found in the source; write one as: extern "C" void name(...) {...}')
    return library


class CppLibrary:
    """The `extern "C"` functions of one source, as attributes."""

    def __init__(self, source: str, flags: tuple[str, ...], handle: ctypes.CDLL) -> None:
        self._recipe = (source, flags)
        self._found: list[str] = []
        self._refused: dict[str, str] = {}
        for name, signature in read_signatures(source).items():
            if not hasattr(handle, name):
                continue  # static, or left out by the preprocessor: read, but not there
            if signature is None:
                self._refused[name] = "it is declared twice with different parameters"
            elif signature.returns.code or signature.returns.pointers or signature.returns.base == "void":
                setattr(self, name, CppFunction(self, signature, handle))
                self._found.append(name)
            else:
                self._refused[name] = f"it returns {signature.returns}; return void, a number or a pointer"

    def __getattr__(self, name: str) -> CppFunction:
        if name.startswith("__") or "_refused" not in self.__dict__:
            raise AttributeError(name)
        if name in self._refused:
            raise ArgumentError(f"{name} cannot be called from Python: {self._refused[name]}")
        raise AttributeError(
            f'no extern "C" function {name!r} was found in the source (found: {", ".join(self._found)}); '
            "write its definition out, since functions that macros make are not seen"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return cpp, self._recipe


class CppFunction:
    """One function of a library. Arguments are checked against its declaration; Python's lock is released while it runs."""

    def __init__(self, library: CppLibrary, signature: Signature, handle: ctypes.CDLL) -> None:
        self.signature = signature
        self._library = library
        self._converters = converters(signature, "cpu")
        self._entry = handle[signature.name]
        self._entry.argtypes = [_CTYPES[p.type.code] if p.type.code else ctypes.c_void_p for p in signature.parameters]
        returns = signature.returns
        self._entry.restype = _CTYPES[returns.code] if returns.code else ctypes.c_void_p if returns.pointers else None
        self._count = len(signature.parameters)

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != self._count:
            raise wrong_argument_count(self.signature, len(arguments))
        return self._entry(*[convert(value) for convert, value in zip(self._converters, arguments)])

    def __repr__(self) -> str:
        return f"<C++ function {self.signature.returns} {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._library, self.signature.name)


@functools.cache
def _compiler(chosen: str) -> tuple[str, str, tuple[str, ...]]:
    """The compiler's path, its version, and those flags for this processor and for OpenMP that it takes."""
    names = [chosen] if chosen else ["g++", "c++", "clang++"]
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        asked = f"CXX names {chosen!r}, which is not there" if chosen else "no C++ compiler was found"
        raise UnavailableError(
            f"{asked}; install g++ (Debian and Ubuntu: apt install g++, macOS: xcode-select --install) or set CXX"
        )
    wanted = [(march, "-fopenmp") for march in _NATIVE] + [("-fopenmp",), *((march,) for march in _NATIVE), ()]
    for flags in wanted:
        probe = [path, *flags, "-v", "-x", "c++", "-E", os.devnull]
        ran = subprocess.run(probe, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
        if ran.returncode == 0:
            version = "\n".join(line for line in ran.stderr.splitlines() if " version " in line or line.startswith("Target:"))
            # A name that nothing defines is then the compiler's complaint, and not a failure to load.
            linker = ("-Wl,--no-undefined",) if sys.platform.startswith("linux") else ()
            return path, version, flags + linker + _half_by_another_name(version)
    raise UnavailableError(f"{path} does not work: {ran.stderr.strip()[-200:]}; install g++ or set CXX to another compiler")


def _half_by_another_name(version: str) -> tuple[str, ...]:
    """On Arm, g++ has `_Float16` in C++ only from 13 on; the same type was `__fp16` before."""
    found = re.search(r"gcc version (\d+)", version)
    old = found is not None and int(found[1]) < 13 and "Target: aarch64" in version
    return ("-D_Float16=__fp16",) if old else ()


@functools.cache
def _processor() -> str:
    """What `-march=native` depends on. A folder of results may be shared by machines, or outlive a move to another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # one processor's block: the others are alike
            facts = [line for line in first if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        facts = []
    return "".join(facts) or platform.processor()
