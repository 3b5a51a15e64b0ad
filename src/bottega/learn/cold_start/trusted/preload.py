"""What the fork server imports once for all workers: a fork then costs no import. Triton is not among it: it reads at its import whether
it shall interpret; nothing here touches CUDA."""

from __future__ import annotations

from bottega.learn.cold_start.trusted import worker
from bottega.learn.teachers.builder import course

__all__ = ["course", "worker"]
