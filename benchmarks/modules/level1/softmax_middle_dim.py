import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Softmax over the middle dimension of a 3D tensor.
    """

    def __init__(self, dim=1):
        super().__init__()
        self.softmax = nn.Softmax(dim=dim)

    def forward(self, scores):
        return self.softmax(scores)


B = 64
CLASSES = 1000
POSITIONS = 480


def get_inputs():
    return [torch.randn(B, CLASSES, POSITIONS) * 4.0]


def get_init_inputs():
    return []
