"""Every expert runs on every token, weighted by a softmax gate; bfloat16 throughout."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(tokens=768, width=192, hidden=256, experts=4),
    "gpu": dict(tokens=4096, width=1024, hidden=2048, experts=8),
}


class Model(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()

        def parameter(*shape):
            return nn.Parameter((torch.randn(*shape) * shape[-2] ** -0.5).to(torch.bfloat16))

        self.gate = parameter(width, experts)
        self.up = parameter(experts, width, hidden)
        self.down = parameter(experts, hidden, width)

    def forward(self, x):
        weights = torch.softmax(x @ self.gate, dim=-1)
        hidden = torch.nn.functional.silu(torch.matmul(x, self.up))
        outputs = torch.matmul(hidden, self.down)
        return torch.einsum("te,etw->tw", weights, outputs)


def get_inputs():
    return [torch.randn(tokens, width, dtype=torch.bfloat16)]


def get_init_inputs():
    return [width, hidden, experts]
