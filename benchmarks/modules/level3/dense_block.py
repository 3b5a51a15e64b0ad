import torch
import torch.nn as nn


class DenseLayer(nn.Module):
    def __init__(self, in_channels, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(in_channels)
        self.act = nn.ReLU()
        self.conv = nn.Conv2d(in_channels, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(self.act(self.norm(x)))


class Model(nn.Module):
    """
    Dense block: every layer sees the concatenation of all the features before it.
    """

    def __init__(self, in_channels, growth, num_layers):
        super().__init__()
        self.blocks = nn.ModuleList([DenseLayer(in_channels + i * growth, growth) for i in range(num_layers)])

    def forward(self, x):
        features = [x]
        for block in self.blocks:
            features.append(block(torch.cat(features, dim=1)))
        return torch.cat(features, dim=1)


def get_inputs():
    return [torch.randn(16, 48, 64, 64)]


def get_init_inputs():
    return [48, 24, 5]
