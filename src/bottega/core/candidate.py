"""A candidate: source text that defines `ModelNew`, the language of its kernels, and the candidate it grew from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SOURCE_LIMIT = 1 << 20
"""Characters of a source that is judged, and of any source that is looked at."""


@dataclass(frozen=True)
class Candidate:
    source: str
    language: str
    """A name that `bottega.languages.language_named` knows. `bottega.languages.candidate_from` finds it by the text."""
    name: str = "candidate"
    parent: str | None = None
    """The id of the candidate it was refined from."""

    @property
    def id(self) -> str:
        return hashlib.sha256(self.source.encode(errors="surrogatepass")).hexdigest()[:16]
