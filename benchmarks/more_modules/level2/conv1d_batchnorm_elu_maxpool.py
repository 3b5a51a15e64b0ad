import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    One stage of an audio network: Conv1d, BatchNorm1d, ELU, MaxPool1d.
    """
    def __init__(self, in_channels, out_channels, kernel_size, alpha):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        self.bn = nn.BatchNorm1d(out_channels)
        self.alpha = alpha

    def forward(self, x):
        x = self.bn(self.conv(x))
        x = F.elu(x, alpha=self.alpha)
        return F.max_pool1d(x, kernel_size=4)

batch_size = 48
in_channels = 64
out_channels = 128
kernel_size = 7
samples = 8192

def get_inputs():
    return [torch.randn(batch_size, in_channels, samples)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, 0.9]
