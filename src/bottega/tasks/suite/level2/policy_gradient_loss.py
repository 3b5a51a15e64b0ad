"""A scalar loss that does not settle to a constant: advantages have either sign, so every sample moves the sum."""

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(samples=4096, actions=500),
    "gpu": dict(samples=65536, actions=2000),
}


class Model(nn.Module):
    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits: torch.Tensor, actions: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        log_probabilities = F.log_softmax(logits / self.temperature, dim=-1)
        chosen = torch.gather(log_probabilities, 1, actions[:, None])[:, 0]
        return -(chosen * advantages).sum()


def get_inputs():
    return [2 * torch.randn(samples, actions), torch.randint(0, actions, (samples,)), torch.randn(samples)]


def get_init_inputs():
    return [0.7]
