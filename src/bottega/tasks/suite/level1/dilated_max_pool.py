import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch_size=8, channels=32, height=90, width=70),
    "gpu": dict(batch_size=64, channels=96, height=200, width=160),
}


class Model(nn.Module):
    """Max pooling with a dilated, overlapping, padded window."""

    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [3, 2, 1, 2]
