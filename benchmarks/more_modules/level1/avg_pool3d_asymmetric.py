import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    3D average pooling with a different window in time and space; the padding is not counted.
    """
    def __init__(self, kernel_size, stride, padding):
        super(Model, self).__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x):
        return F.avg_pool3d(x, self.kernel_size, stride=self.stride, padding=self.padding, count_include_pad=False)

batch_size = 10
channels = 24
frames = 32
height = 80
width = 80

def get_inputs():
    return [torch.randn(batch_size, channels, frames, height, width)]

def get_init_inputs():
    return [(2, 3, 3), (2, 2, 2), (0, 1, 1)]
