"""One projection, cut in halves, one half gating the other; all of it in bfloat16."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(TOKENS=1024, WIDTH=192, HIDDEN=768),
    "gpu": dict(TOKENS=16384, WIDTH=2048, HIDDEN=4096),
}


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        weight = torch.randn(2 * hidden, width) / width**0.5
        self.weight = nn.Parameter(weight.to(torch.bfloat16))
        self.bias = nn.Parameter((torch.randn(2 * hidden) * 0.5).to(torch.bfloat16))

    def forward(self, x):
        value, gate = nn.functional.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        return value * nn.functional.gelu(gate)


def get_inputs():
    return [torch.randn(TOKENS, WIDTH).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
