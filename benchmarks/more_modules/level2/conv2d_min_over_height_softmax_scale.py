import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Applies a convolution, takes the minimum over the height, then softmax over the channels,
    multiplied by the number of channels (so that 1 is the average).
    """
    def __init__(self, in_channels, out_channels, kernel_size, dim):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.dim = dim

    def forward(self, x):
        x = self.conv(x)
        x = torch.min(x, dim=self.dim)[0]
        x = torch.softmax(x, dim=1) * x.shape[1]
        return x

batch_size = 32
in_channels = 20
out_channels = 48
height = 130
width = 194
kernel_size = 3
dim = 2

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, dim]
