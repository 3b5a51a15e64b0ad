import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Vocoder-like upsampling: transposed 1D convolution, leaky ReLU, and the mean over time removed.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, slope):
        super().__init__()
        self.up = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride, padding=(kernel_size - stride) // 2)
        self.slope = slope

    def forward(self, x):
        x = F.leaky_relu(self.up(x), self.slope)
        return x - x.mean(dim=-1, keepdim=True)

batch_size = 16
in_channels = 128
out_channels = 64
length = 4096
kernel_size = 8
stride = 4

def get_inputs():
    return [torch.randn(batch_size, in_channels, length)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, 0.1]
