import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Upsampling by a transposed convolution, ReLU, sum with a skip tensor scaled per channel.
    """
    def __init__(self, in_channels, out_channels, init_scale):
        super(Model, self).__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
        self.gamma = nn.Parameter(init_scale * torch.ones(out_channels, 1, 1))

    def forward(self, x, skip):
        x = torch.relu(self.up(x))
        return x + self.gamma * skip

batch_size = 24
in_channels = 128
out_channels = 64
height = 56
width = 56

def get_inputs():
    return [
        torch.randn(batch_size, in_channels, height, width),
        torch.randn(batch_size, out_channels, 2 * height, 2 * width),
    ]

def get_init_inputs():
    return [in_channels, out_channels, 0.3]
