import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Spread of the channels at every pixel (max minus min), squashed.
    """
    def __init__(self, in_channels, out_channels, kernel_size, dilation):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, dilation=dilation, padding=dilation)

    def forward(self, x):
        x = self.conv(x)
        hi = torch.amax(x, dim=1, keepdim=True)
        lo = torch.amin(x, dim=1, keepdim=True)
        return torch.sigmoid(hi - lo)

batch_size = 64
in_channels = 24
out_channels = 64
kernel_size = 3
dilation = 2
height, width = 128, 128

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, dilation]
