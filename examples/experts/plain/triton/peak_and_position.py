"""The largest value of a row and its place, without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def peaks(x, values, places, pixels, BLOCK: tl.constexpr):
    base = tl.program_id(0) * pixels
    peak = -float("inf")
    place = 0
    for start in range(0, pixels, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + base + at, mask=at < pixels, other=-float("inf"))
        highest = tl.max(part, axis=0)
        first = tl.min(tl.where(part == highest, at, pixels), axis=0)
        place = tl.where(highest > peak, first, place)
        peak = tl.maximum(peak, highest)
    tl.store(values + tl.program_id(0), peak)
    tl.store(places + tl.program_id(0), place)


class ModelNew(nn.Module):
    def forward(self, heatmaps):
        batch, joints, pixels = heatmaps.shape
        values = torch.empty(batch, joints, device=heatmaps.device)
        places = torch.empty(batch, joints, device=heatmaps.device, dtype=torch.int64)
        peaks[(batch * joints,)](heatmaps, values, places, pixels, BLOCK=1024)
        return values, places
