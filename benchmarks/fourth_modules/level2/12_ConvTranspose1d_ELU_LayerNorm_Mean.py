import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed 1D convolution, ELU, layer norm over the time axis, mean over the channels.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, out_length):
        super(Model, self).__init__()
        self.up = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=stride)
        self.elu = nn.ELU(alpha=0.8)
        self.norm = nn.LayerNorm(out_length)

    def forward(self, x):
        x = self.up(x)
        x = self.elu(x)
        x = self.norm(x)
        return x.mean(dim=1)

batch_size = 64
in_channels = 64
out_channels = 64
kernel_size = 4
stride = 4
length = 1024

def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, length * stride]
