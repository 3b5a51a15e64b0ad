import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=16, steps=64, channels=512),
    "gpu": dict(batch=64, steps=128, channels=4096),
}


class Model(nn.Module):
    """A linear recurrence with a gate per step: h = a_t h + (1 - a_t) x_t, read out through a second gate."""

    def forward(self, x: torch.Tensor, decay: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        a = torch.sigmoid(decay)
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.size(1)):
            state = a[:, step] * state + (1 - a[:, step]) * x[:, step]
            states.append(state)
        return torch.stack(states, dim=1) * torch.tanh(gate)


def get_inputs():
    shape = (batch, steps, channels)
    return [torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
