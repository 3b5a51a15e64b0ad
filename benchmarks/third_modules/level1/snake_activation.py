import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Snake activation, x + sin(a x)^2 / a, with one frequency per channel.
    """

    def __init__(self, channels: int):
        super(Model, self).__init__()
        self.alpha = nn.Parameter(torch.linspace(0.5, 2.0, channels).view(1, channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.alpha * x).pow(2) / self.alpha


batch_size = 40
channels = 128
samples = 16000


def get_inputs():
    return [torch.randn(batch_size, channels, samples)]


def get_init_inputs():
    return [channels]
