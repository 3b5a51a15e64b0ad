"""The catalogue: one entry for each operator, one file for each family."""

from __future__ import annotations

from bottega.tasks.synth.catalogue.activations import ACTIVATIONS
from bottega.tasks.synth.catalogue.attention import ATTENTION
from bottega.tasks.synth.catalogue.convolutions import CONVOLUTIONS
from bottega.tasks.synth.catalogue.elementwise import ELEMENTWISE
from bottega.tasks.synth.catalogue.indexing import INDEXING
from bottega.tasks.synth.catalogue.losses import LOSSES
from bottega.tasks.synth.catalogue.matmul import MATMUL
from bottega.tasks.synth.catalogue.norms import NORMS
from bottega.tasks.synth.catalogue.pooling import POOLING
from bottega.tasks.synth.catalogue.recurrent import RECURRENT
from bottega.tasks.synth.catalogue.reductions import REDUCTIONS
from bottega.tasks.synth.catalogue.scans import SCANS
from bottega.tasks.synth.catalogue.softmax import SOFTMAX
from bottega.tasks.synth.operator import Operator

_ENTRIES = (
    *ELEMENTWISE,
    *ACTIVATIONS,
    *REDUCTIONS,
    *NORMS,
    *SOFTMAX,
    *POOLING,
    *MATMUL,
    *CONVOLUTIONS,
    *LOSSES,
    *SCANS,
    *INDEXING,
    *ATTENTION,
    *RECURRENT,
)

CATALOGUE: dict[str, Operator] = {entry.name: entry for entry in _ENTRIES}
FAMILIES: tuple[str, ...] = (*dict.fromkeys(entry.family for entry in _ENTRIES), "blocks")
