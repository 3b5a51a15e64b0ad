"""Whether a module's output says anything, found by running it on a few samples before its file is written.

The judge looks at the whole task and knows more; this saves it the samples that would be constant, averaged away, not finite, or that have a
parameter without effect. What takes too long for a look is left to the judge.
"""

from __future__ import annotations

import math
from typing import Any

from bottega.tasks.synth.costs import OperatorCost

ELEMENTS = 4096
"""Of the output, that are compared with each other."""
MOST_OPERATIONS, MOST_BYTES = 3e8, 4e7
LARGEST, SMALLEST = 3e4, 5e-4
LEAST_CHANGE = 0.05
"""Relative change between independent inputs; the judge calls a task averaged below 0.02."""
MOST_ALIKE = 0.8
"""Share of elements that may have one and the same value."""


def is_quick(costs: list[OperatorCost]) -> bool:
    return sum(one.operations for one in costs) < MOST_OPERATIONS and sum(one.bytes for one in costs) < MOST_BYTES


def fault(source: str, samples: int, batch: int) -> str:
    """Why the output of a task is poor, given its source for a few samples and the batch that it may come to have; empty when it is not."""
    import torch

    space: dict[str, Any] = {}
    exec(compile(source, "task", "exec"), space)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(0)  # of the CPU alone: `torch.manual_seed` is slow
        model = space["Model"](*space["get_init_inputs"]())
        one, two = space["get_inputs"](), space["get_inputs"]()
        out, other = model(*one), model(*two)
        if not out.is_floating_point():
            return ""
        size = _size(out)
        if not torch.isfinite(out).all() or not SMALLEST < size < LARGEST:
            return "not finite, or too large or small"
        if out.shape == one[0].shape and torch.equal(out, one[0]):
            return "the same as the input"
        whole = out.dim() == 0 or out.shape[0] != samples  # over all samples: the more there are, the less it changes
        if _size(out - other) / size * ((samples / batch) ** 0.5 if whole else 1.0) < LEAST_CHANGE:
            return "averaged"
        some = out.flatten()[:: max(1, out.numel() // ELEMENTS)]
        if some.numel() > 1 and torch.unique(some, return_counts=True)[1].max() > MOST_ALIKE * some.numel():
            return "mostly one value"
        for parameter in model.parameters():
            kept = parameter.clone()
            parameter.add_(torch.randn_like(parameter))
            if _size(model(*one) - out) < 1e-5 * size:
                return "a parameter without effect"
            parameter.copy_(kept)
    return ""


def _size(tensor: Any) -> float:
    return math.sqrt(float(tensor.double().square().mean()))
