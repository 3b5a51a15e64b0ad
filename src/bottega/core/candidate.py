"""A candidate: source text that defines `ModelNew`, the language of its kernels, and the candidate it grew from."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

Language = Literal["cpp", "triton", "cuda", "torch"]

_TRITON = re.compile(r"@\s*triton\s*\.\s*(jit|autotune)|@\s*jit\b|import\s+triton|from\s+triton\b")
_CUDA = re.compile(r"__global__|cuda_sources|cuda\.core|RawKernel|bottega\.runtime\s+import[^\n]*\bcuda\b|runtime\.cuda\b")
_CPP = re.compile(r"extern\s+\"C\"|cpp_sources|bottega\.runtime\s+import[^\n]*\bcpp\b|runtime\.cpp\b|#include\s*<")


def detect_language(source: str) -> Language:
    """A hint from the text alone: it picks the tool chain and the wording of a diagnosis, never a verdict."""
    if _CUDA.search(source):
        return "cuda"
    if _TRITON.search(source):
        return "triton"
    if _CPP.search(source):
        return "cpp"
    return "torch"


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
