import torch
import torch.nn as nn

class Model(nn.Module):
    """
    3D convolution, max pool followed by average pool, softmax over channels, constant scale.
    """
    def __init__(self, in_channels, out_channels, kernel_size, scale):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.pool1 = nn.MaxPool3d(2)
        self.pool2 = nn.AvgPool3d(2)
        self.scale = scale

    def forward(self, x):
        x = self.conv(x)
        x = self.pool1(x)
        x = self.pool2(x)
        x = torch.softmax(x, dim=1)
        return self.scale * x

batch_size = 24
in_channels = 4
out_channels = 32
depth, height, width = 26, 66, 66
kernel_size = 3

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, 10.0]
