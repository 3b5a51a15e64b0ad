"""One step of SGD with momentum and weight decay, in place on weights and velocity."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(parameters=1_000_000),
    "gpu": dict(parameters=60_000_000),
}


class Model(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.lr, self.momentum, self.decay = lr, momentum, decay

    @torch.no_grad()
    def forward(self, weights, velocity, gradient):
        gradient = gradient + self.decay * weights
        velocity.mul_(self.momentum).add_(gradient)
        weights.sub_(self.lr * velocity)
        return weights, velocity


def get_inputs():
    return [torch.randn(parameters), torch.randn(parameters) * 0.5, torch.randn(parameters)]


def get_init_inputs():
    return [0.5, 0.9, 0.05]
