import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super(Model, self).__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x):
        return F.avg_pool3d(x, self.kernel_size, self.stride, self.padding, count_include_pad=False)

batch_size = 16
channels = 24
depth, height, width = 48, 72, 96
kernel_size = (3, 3, 5)
stride = (2, 1, 2)
padding = (1, 1, 2)

def get_inputs():
    return [torch.rand(batch_size, channels, depth, height, width)]

def get_init_inputs():
    return [kernel_size, stride, padding]
