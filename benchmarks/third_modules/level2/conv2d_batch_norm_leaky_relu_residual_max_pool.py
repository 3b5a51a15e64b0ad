import torch
import torch.nn as nn


class Model(nn.Module):
    """3x3 convolution, batch norm, leaky ReLU, skip connection from the input, max pooling."""

    def __init__(self, channels, negative_slope):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.LeakyReLU(negative_slope)
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)

    def forward(self, x):
        out = self.act(self.bn(self.conv(x)))
        out = out + x
        return self.pool(out)


batch_size = 56
channels = 72
size = 112


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, 0.15]
