import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Performs a transposed 1D convolution with stride, padding and dilation.
    """
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1, bias: bool = False):
        super(Model, self).__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        Args:
            x (torch.Tensor): Input tensor of shape (batch_size, in_channels, length).
        """
        return self.conv1d_transpose(x)

batch_size = 12
in_channels = 64
out_channels = 80
kernel_size = 4
length = 24576
stride = 2
padding = 3
dilation = 2

def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
