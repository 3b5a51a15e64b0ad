import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Upsampling convolution whose maps are turned into spatial attention (softmax over all pixels of a channel).
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, gain):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.gain = gain

    def forward(self, x):
        x = self.conv_transpose(x)
        b, c, h, w = x.shape
        x = F.softmax(x.view(b, c, h * w), dim=2).view(b, c, h, w)
        x = x * self.gain + self.bias
        return torch.sigmoid(x)

batch_size = 32
in_channels = 48
out_channels = 32
height, width = 48, 64
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
gain = 1000.0

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, gain]
