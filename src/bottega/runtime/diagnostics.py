"""Shortens a compiler's output to its first errors, each with its line of the given source."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import CompileError

_SHOWN = 4
_GNU = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<message>.*)$")
_NVRTC = re.compile(r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<message>.*)$")
_REQUIRED = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s+(?:required from|in 'constexpr' expansion)")
_LINKER = re.compile(r"undefined reference|undefined symbol|multiple definition|cannot find -l|unrecognized|ptxas|unsupported")


@dataclass(frozen=True)
class Diagnostic:
    message: str
    line: int | None = None
    """In the given source; None for an error elsewhere that nothing in the source is blamed for."""


def compile_error(log: str, source: str, file_name: str, compiler: str, hint: str = "") -> CompileError:
    """The error to raise for a compiler's log, where the source was compiled under `file_name`."""
    diagnostics = read_diagnostics(log, file_name)
    lines = source.split("\n")
    text = [f"{compiler} refused the source:"]
    for diagnostic in diagnostics[:_SHOWN]:
        if diagnostic.line is None:
            text.append(f"error: {diagnostic.message}")
        else:
            text.append(f"line {diagnostic.line}: error: {diagnostic.message}")
            if 0 < diagnostic.line <= len(lines):
                text.append("    " + lines[diagnostic.line - 1].strip()[:160])
    if len(diagnostics) > _SHOWN:
        text.append(f"... and {len(diagnostics) - _SHOWN} more errors")
    if not diagnostics:
        text += [line[:240] for line in log.splitlines() if line.strip()][:8] or ["it gave no reason"]
    if hint:
        text.append(hint)
    return CompileError("\n".join(text), log)


def read_diagnostics(log: str, file_name: str) -> list[Diagnostic]:
    """The errors in a log of g++, clang++ or NVRTC, in order and without repetitions."""
    diagnostics: list[Diagnostic] = []
    blamed: int | None = None
    for line in log.splitlines():
        if (required := _REQUIRED.match(line)) and required["file"].endswith(file_name):
            blamed = int(required["line"])
        elif match := _GNU.match(line) or _NVRTC.match(line):
            if match["file"].endswith(file_name):
                diagnostics.append(Diagnostic(match["message"][:240], int(match["line"])))
            else:
                header = match["file"].rsplit("/", 1)[-1]
                diagnostics.append(Diagnostic(f"{match['message'][:240]} (in {header}, line {match['line']})", blamed))
            blamed = None
    if not diagnostics:
        diagnostics = [Diagnostic(line.strip()[:240]) for line in log.splitlines() if _LINKER.search(line)]
    return list(dict.fromkeys(diagnostics))
