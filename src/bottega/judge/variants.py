"""Names of input variants and precisions: kept apart from their code so that the judge's own process needs no torch."""

VARIANTS = ("plain", "mixed", "spiked", "heavy", "offset")
QUICK_VARIANTS = ("plain", "spiked")
OF_LONG_SUMS = ("concentrated",)
"""Tried as well, in a quick verdict too, where an output has so few elements that each is made of very many."""
OF_INTEGERS = ("discrete", "uniform")
"""Tried as well where some input is integer, boolean or has few values. Not timed: where indices repeat more often than they do as drawn, memory
and atomics are quicker or slower."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
