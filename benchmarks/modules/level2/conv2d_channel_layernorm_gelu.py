import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Convolution followed by a layer normalisation over the channels and a GELU.
    """

    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.conv = nn.Conv2d(dim_in, dim_out, kernel_size=3, stride=1, padding=1)
        self.ln = nn.LayerNorm(dim_out)

    def forward(self, x):
        x = self.conv(x)
        x = x.permute(0, 2, 3, 1)
        x = self.ln(x)
        x = F.gelu(x)
        return x.permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(16, 48, 96, 96)]


def get_init_inputs():
    return [48, 128]
