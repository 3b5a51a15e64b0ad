"""Rules for C++ kernels, in the order in which a walk tries to take them out: hints first, then arithmetic, tiles, fusion, threads last."""

from __future__ import annotations

from bottega.lineage.cpp.loops import LOOP_RULES
from bottega.lineage.cpp.memory import MEMORY_RULES
from bottega.lineage.cpp.numbers import NUMBER_RULES
from bottega.lineage.cpp.pragmas import PRAGMA_RULES
from bottega.lineage.rule import Rule

RULES: tuple[Rule, ...] = (*MEMORY_RULES, *NUMBER_RULES, *LOOP_RULES, *PRAGMA_RULES)
