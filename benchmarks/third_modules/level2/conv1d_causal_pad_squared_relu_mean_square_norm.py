import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Left-padded (causal) Conv1d, squared ReLU, RMS normalisation over channels, gain."""

    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.left = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)
        self.gain = nn.Parameter(torch.ones(cout, 1))

    def forward(self, x):
        x = F.pad(x, (self.left, 0))
        x = self.conv(x)
        x = torch.relu(x) ** 2
        ms = (x ** 2).mean(1, keepdim=True)
        x = x / torch.sqrt(ms + 1e-5)
        return self.gain * x


B = 24
CIN = 128
COUT = 192
L = 8192
K = 4
DILATION = 4


def get_inputs():
    return [torch.randn(B, CIN, L)]


def get_init_inputs():
    return [CIN, COUT, K, DILATION]
