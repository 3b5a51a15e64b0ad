"""A candidate: source text that defines `ModelNew`, the language of its kernels, and the candidate it grew from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bottega.core.foreign_text import tokens

Language = Literal["cpp", "triton", "cuda", "torch"]

SOURCE_LIMIT = 1 << 20
"""Characters of a source that is judged, and of any source that is looked at."""
_TRITON_MARKS = frozenset(
    {("@", "jit"), ("@", "triton.jit"), ("@", "triton.autotune"), ("import", "triton"), ("from", "triton")}
)
_CUDA_MARKS = ("__global__", "cuda_sources", "cuda.core", "RawKernel")


def detect_language(source: str) -> Language:
    """A hint from the text alone: it picks the tool chain and the wording of a diagnosis, never a verdict."""
    text = source[:SOURCE_LIMIT]
    if any(mark in text for mark in _CUDA_MARKS):
        return "cuda"
    found: set[str] = {"cpp"} if "cpp_sources" in text else set()
    for language in _mentioned(text):
        if language == "cuda":
            return "cuda"
        found.add(language)
    return "triton" if "triton" in found else "cpp" if "cpp" in found else "torch"


def _mentioned(text: str) -> Iterator[Language]:
    """Languages that decorators, imports and declarations speak of, in one pass."""
    before, last = "", ""
    """What stands directly before a token; a name with dots is one."""
    importing, open_bracket = False, False
    for token in tokens(text):
        if (token == "." or last.endswith(".")) and len(last) < 80:
            last += token
        else:
            before, last = last, token
        if token == "import":
            importing, open_bracket = before == "bottega.runtime", False
        elif token == ")" or (token == "\n" and not open_bracket):
            importing = False
        elif token == "(":
            open_bracket = True
        if token in ("cuda", "cpp") and (importing or last.endswith(f"runtime.{token}")):
            yield "cuda" if token == "cuda" else "cpp"
        elif (before, last) in _TRITON_MARKS:
            yield "triton"
        elif (token == '"C"' and before == "extern") or (token == "<" and before == "include"):
            yield "cpp"


@dataclass(frozen=True)
class Candidate:
    source: str
    language: Language = "torch"
    name: str = "candidate"
    parent: str | None = None
    """The id of the candidate it was refined from."""

    @classmethod
    def from_source(cls, source: str, name: str = "candidate", parent: str | None = None) -> Candidate:
        return cls(source, detect_language(source), name, parent)

    @property
    def id(self) -> str:
        return hashlib.sha256(self.source.encode(errors="surrogatepass")).hexdigest()[:16]
