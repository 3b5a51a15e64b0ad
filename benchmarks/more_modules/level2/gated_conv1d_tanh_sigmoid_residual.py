import torch
import torch.nn as nn

class Model(nn.Module):
    """
    WaveNet's gated unit: tanh(conv(x)) * sigmoid(conv(x)), plus the input.
    """
    def __init__(self, channels, kernel_size, dilation):
        super().__init__()
        pad = dilation * (kernel_size - 1) // 2
        self.filter_conv = nn.Conv1d(channels, channels, kernel_size, padding=pad, dilation=dilation)
        self.gate_conv = nn.Conv1d(channels, channels, kernel_size, padding=pad, dilation=dilation)

    def forward(self, x):
        f = torch.tanh(self.filter_conv(x))
        g = torch.sigmoid(self.gate_conv(x))
        return x + f * g

batch_size = 16
channels = 128
samples = 12000
kernel_size = 3
dilation = 8

def get_inputs():
    return [torch.randn(batch_size, channels, samples)]

def get_init_inputs():
    return [channels, kernel_size, dilation]
