import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Convolution, then each position is weighted by the sigmoid of its channel mean plus channel max.
    """
    def __init__(self, in_channels, out_channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        x = self.conv(x)
        avg = torch.mean(x, dim=1, keepdim=True)
        mx, _ = torch.max(x, dim=1, keepdim=True)
        return x * torch.sigmoid(avg + mx)

batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = 3
height = 112
width = 112

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
