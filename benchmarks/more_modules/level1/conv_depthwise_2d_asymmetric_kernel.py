import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Depthwise 2D convolution with a kernel of different height and width.

    Args:
        channels (int): Number of channels; each is convolved with its own filter.
        kernel_h (int): Height of the kernel.
        kernel_w (int): Width of the kernel.
    """
    def __init__(self, channels: int, kernel_h: int, kernel_w: int, padding_h: int = 0, padding_w: int = 0, bias: bool = False):
        super(Model, self).__init__()
        self.conv2d = nn.Conv2d(channels, channels, (kernel_h, kernel_w), padding=(padding_h, padding_w), groups=channels, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)

batch_size = 20
channels = 72
kernel_h = 7
kernel_w = 3
height = 144
width = 224

def get_inputs():
    x = torch.rand(batch_size, channels, height, width)
    return [x]

def get_init_inputs():
    return [channels, kernel_h, kernel_w, 3, 1]
