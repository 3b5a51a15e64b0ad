import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    1x1 convolution, extra bias, Mish, mean over channels.
    """
    def __init__(self, in_channels, out_channels):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1) * 0.5)

    def forward(self, x):
        x = self.conv(x) + self.bias
        x = F.mish(x)
        return x.mean(dim=1, keepdim=True)

batch_size = 30
in_channels = 96
out_channels = 160
height = 112
width = 96

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels]
