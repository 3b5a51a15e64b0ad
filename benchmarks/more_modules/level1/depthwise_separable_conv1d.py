import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Depthwise-separable convolution along a sequence: a depthwise filter, then a pointwise mix.
    """
    def __init__(self, in_channels, out_channels, kernel_size, padding=0, dilation=1):
        super(Model, self).__init__()
        self.depthwise = nn.Conv1d(in_channels, in_channels, kernel_size, padding=padding, dilation=dilation, groups=in_channels, bias=False)
        self.pointwise = nn.Conv1d(in_channels, out_channels, 1, bias=False)

    def forward(self, x):
        x = self.depthwise(x)
        x = self.pointwise(x)
        return x

batch_size = 16
in_channels = 128
out_channels = 192
kernel_size = 9
seq_len = 16000
dilation = 2
padding = 8

def get_inputs():
    return [torch.randn(batch_size, in_channels, seq_len)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding, dilation]
