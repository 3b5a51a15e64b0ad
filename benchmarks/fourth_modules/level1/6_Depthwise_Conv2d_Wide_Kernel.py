import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Depthwise 2D convolution with a 3x11 kernel, "same" padding.
    """
    def __init__(self, channels, kh, kw):
        super(Model, self).__init__()
        self.channels = channels
        self.pad = (kh // 2, kw // 2)
        self.weight = nn.Parameter(torch.randn(channels, 1, kh, kw) * 0.1)

    def forward(self, x):
        return F.conv2d(x, self.weight, padding=self.pad, groups=self.channels)

batch_size = 32
channels = 96
H, W = 112, 224

def get_inputs():
    return [torch.rand(batch_size, channels, H, W)]

def get_init_inputs():
    return [channels, 3, 11]
