"""The catalogue: one row for each operator, by kind."""

from __future__ import annotations

from bottega.tasks.synth.catalogue.layers import LAYERS
from bottega.tasks.synth.catalogue.pointwise import POINTWISE
from bottega.tasks.synth.catalogue.reducing import REDUCING
from bottega.tasks.synth.catalogue.table import Kind, Operator, read_kinds

KINDS: dict[str, Kind] = read_kinds(POINTWISE, REDUCING, LAYERS)
CATALOGUE: dict[str, Operator] = {operator.name: operator for kind in KINDS.values() for operator in kind.operators}
FAMILIES: tuple[str, ...] = (*dict.fromkeys(kind.family for kind in KINDS.values()), "blocks")
