import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Dilated convolution, signed square root, L2 normalisation over the channels.
    """

    def __init__(self, in_channels, out_channels, dilation, eps=1e-4):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation)
        self.eps = eps

    def forward(self, x):
        y = self.conv(x)
        y = torch.sign(y) * torch.sqrt(torch.abs(y) + self.eps)
        length = torch.sqrt(torch.sum(y**2, dim=1, keepdim=True))
        return y / (length + self.eps)


batch = 12
in_channels = 40
out_channels = 64


def get_inputs():
    return [torch.randn(batch, in_channels, 144, 112)]


def get_init_inputs():
    return [in_channels, out_channels, 2]
