import torch
import torch.nn as nn

class Model(nn.Module):
    """
    2D max pooling with padding, dilation and ceil mode.
    """
    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int):
        """
        Args:
            kernel_size (int): window size
            stride (int): step of the window
            padding (int): implicit padding at both sides
            dilation (int): spacing of the window's elements
        """
        super(Model, self).__init__()
        self.maxpool = nn.MaxPool2d(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.maxpool(x)

batch_size = 24
channels = 48
height = 201
width = 215
kernel_size = 3
stride = 2
padding = 1
dilation = 2

def get_inputs():
    x = torch.randn(batch_size, channels, height, width)
    return [x]

def get_init_inputs():
    return [kernel_size, stride, padding, dilation]
