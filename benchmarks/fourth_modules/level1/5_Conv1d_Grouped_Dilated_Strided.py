import torch
import torch.nn as nn

class Model(nn.Module):
    """
    1D convolution with groups, dilation and stride at once.

    Args:
        in_channels (int): input channels
        out_channels (int): output channels
        kernel_size (int): kernel width
        stride (int)
        dilation (int)
        groups (int)
        bias (bool)
    """
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1,
                 dilation: int = 1, groups: int = 1, bias: bool = False):
        super(Model, self).__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride=stride,
                              padding=(kernel_size // 2) * dilation, dilation=dilation,
                              groups=groups, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)

# Test code
batch_size = 32
in_channels = 64
out_channels = 128
kernel_size = 5
stride = 2
dilation = 3
groups = 4
length = 32768

def get_inputs():
    x = torch.rand(batch_size, in_channels, length)
    return [x]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, dilation, groups, True]
