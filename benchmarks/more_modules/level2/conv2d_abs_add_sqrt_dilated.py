import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Dilated convolution, then sqrt(|x| + eps), keeping the sign.
    """
    def __init__(self, in_channels, out_channels, kernel_size, dilation, eps):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, dilation=dilation, padding=dilation)
        self.eps = eps

    def forward(self, x):
        x = self.conv(x)
        return torch.sign(x) * torch.sqrt(torch.abs(x) + self.eps)

batch_size = 20
in_channels = 64
out_channels = 64
kernel_size = 3
dilation = 4
height = 128
width = 136
eps = 0.01

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, dilation, eps]
