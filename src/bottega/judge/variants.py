"""Names of input variants and precisions: kept apart from their code so that the judge's own process needs no torch."""

VARIANTS = ("plain", "mixed", "spiked", "heavy", "offset")
QUICK_VARIANTS = ("plain", "spiked")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
