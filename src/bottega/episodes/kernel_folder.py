"""Kernels of a proof, kept by their id beside the library: winners are judged again, also after a restart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bottega.core.atomic_file import write_atomic
from bottega.core.candidate import Candidate
from bottega.core.errors import LibraryError
from bottega.languages import candidate_from


@dataclass(frozen=True)
class KernelFolder:
    path: Path

    def keep(self, candidate: Candidate) -> None:
        """From any thread or process: a file is there whole, or not at all."""
        place = self.path / f"{candidate.id}.py"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomic(place, candidate.source.encode())
        except OSError as error:
            raise LibraryError(
                f"{place}: a kernel cannot be kept: {error.strerror}; start the proof again when it can"
            ) from None

    def read(self, candidate_id: str) -> Candidate:
        place = self.path / f"{candidate_id}.py"
        try:
            return candidate_from(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise LibraryError(
                f"{place}: the kernel cannot be judged again: {error.strerror}; prove the card with another seed"
            ) from None
