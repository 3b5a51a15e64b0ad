import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    ConvTranspose3d -> Swish -> GroupNorm -> HardSwish
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, groups, eps):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, bias=True)
        self.group_norm = nn.GroupNorm(num_groups=groups, num_channels=out_channels, eps=eps)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = F.silu(x)
        x = self.group_norm(x)
        return F.hardswish(x)

batch_size = 8
in_channels = 12
out_channels = 20
depth, height, width = 14, 36, 40
kernel_size = 3
stride = 2
groups = 5
eps = 1e-5

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, groups, eps]
