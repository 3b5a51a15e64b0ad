import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Overlapping max pooling.
    """

    def __init__(self, kernel_size, stride, padding=0):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(32, 48, 224, 176)]


def get_init_inputs():
    return [(3, 5), (2, 2), (1, 2)]
