import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Convolution, instance norm and the squared ReLU.
    """
    def __init__(self, in_channels, out_channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.instance_norm = nn.InstanceNorm2d(out_channels, affine=True)

    def forward(self, x):
        x = self.conv(x)
        x = self.instance_norm(x)
        return torch.square(F.relu(x))

batch_size = 16
in_channels = 40
out_channels = 80
height = 162
width = 130
kernel_size = 3

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
