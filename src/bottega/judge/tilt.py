"""Numbers that a lower precision rounds all to the same side, so that what it loses does not average out.

Rounded to the ten bits of TF32's mantissa, or of fp16's, each becomes smaller by some 2e-4 of its size, or each larger; rounded to bf16's seven by
1e-3. Behind a mean over a million elements that is as much as before it. Arithmetic in fp32 does not notice.
"""

from __future__ import annotations

import torch

STEP, STEPS = 1 << 13, 4
"""Between two numbers that TF32 has, in units of the last place of fp32; and how many of them are below half of the step between two of bf16's."""
CELL = 2 * STEPS * STEP
BESIDE = 0.2, 0.45
"""Of a step, how far from a number that TF32 has: far enough to be felt, and not so far that the next one is nearer."""
PIECE = 1 << 22


def tilt(values: torch.Tensor, up: bool) -> None:
    """Replace each element of a dense fp32 tensor by one that is smaller by less than 1 %, all of them above what they are rounded to, or (not `up`)
    all below it. Zeros stay, and so does whatever is not fp32."""
    if values.dtype != torch.float32 or not values.numel():
        return
    low, high = (int(share * STEP) for share in BESIDE)
    for piece in values.as_strided((values.numel(),), (1,)).split(PIECE):
        words = piece.view(torch.int32)
        beside = torch.randint(low, high, words.shape, dtype=torch.int32, device=words.device)
        beside += torch.randint(0, STEPS, words.shape, dtype=torch.int32, device=words.device).mul_(STEP)
        moved = (words & -CELL).add_(beside if up else CELL - beside)
        moved -= CELL * (moved.view(torch.float32).abs() > piece.abs()).int()
        ordinary = (piece.abs() > 2 * torch.finfo(torch.float32).tiny) & piece.isfinite()
        words.copy_(torch.where(ordinary, moved, words))
