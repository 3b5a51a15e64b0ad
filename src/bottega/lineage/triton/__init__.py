"""Rules for Triton kernels, in the order in which a walk tries to take them out: launch options and hints first, then arithmetic, tiles, fusion."""

from __future__ import annotations

from bottega.lineage.rule import Rule
from bottega.lineage.triton.epilogue import EPILOGUE
from bottega.lineage.triton.kernel import KERNEL_RULES
from bottega.lineage.triton.launch import LAUNCH_RULES
from bottega.lineage.triton.program_loops import LOOP_RULES

RULES: tuple[Rule, ...] = (*LAUNCH_RULES[:4], *KERNEL_RULES, *LOOP_RULES, *LAUNCH_RULES[4:], EPILOGUE)
