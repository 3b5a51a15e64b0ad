"""What the fork server imports once for all workers: a fork then costs no import. Triton is not among it: it reads at its import whether
it shall interpret; nothing here touches CUDA."""

from __future__ import annotations

from bottega.compiler import builder
from bottega.data.trusted import worker

__all__ = ["builder", "worker"]
