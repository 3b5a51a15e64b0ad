import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    3D average pooling with padding that is not counted.
    """

    def __init__(self, window, step):
        super().__init__()
        self.window = window
        self.step = step

    def forward(self, x):
        return F.avg_pool3d(x, self.window, stride=self.step, padding=1, count_include_pad=False)


window = 3
step = 2


def get_inputs():
    return [torch.randn(8, 32, 40, 72, 72)]


def get_init_inputs():
    return [window, step]
