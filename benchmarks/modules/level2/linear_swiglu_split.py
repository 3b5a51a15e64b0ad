import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    One wide projection, split in two, SwiGLU, division by a constant.
    """

    def __init__(self, d_model, d_ff, divisor):
        super().__init__()
        self.w_in = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.d_ff = d_ff
        self.divisor = divisor

    def forward(self, x):
        up, gate = torch.split(self.w_in(x), self.d_ff, dim=-1)
        return up * F.silu(gate) / self.divisor


d_model = 1024
d_ff = 2736


def get_inputs():
    return [torch.randn(8, 640, d_model) * 2]


def get_init_inputs():
    return [d_model, d_ff, 1.6]
