import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """Sub-pixel upsampling head: conv, pixel shuffle, add the skip image, tanh, rescale to [0, 255]."""
    def __init__(self, in_channels, image_channels, factor):
        super().__init__()
        self.factor = factor
        self.conv = nn.Conv2d(in_channels, image_channels * factor * factor, 3, padding=1)

    def forward(self, feat, skip):
        img = F.pixel_shuffle(self.conv(feat), self.factor)
        img = torch.tanh(img + skip)
        return (img + 1.0) * 127.5

batch_size = 32
in_channels = 64
image_channels = 3
factor = 4
size = 96

def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size),
            torch.randn(batch_size, image_channels, size * factor, size * factor)]

def get_init_inputs():
    return [in_channels, image_channels, factor]
