import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed convolution, batch normalisation, gated linear unit over the channels.
    """

    def __init__(self, dim, out_dim):
        super().__init__()
        self.deconv = nn.ConvTranspose2d(dim, out_dim * 2, 2, stride=2)
        self.bn = nn.BatchNorm2d(out_dim * 2)
        nn.init.uniform_(self.bn.weight, 0.6, 1.4)
        nn.init.uniform_(self.bn.bias, -0.4, 0.4)

    def forward(self, x):
        x = self.deconv(x)
        x = self.bn(x)
        return F.glu(x, dim=1)


dim = 112
out_dim = 40


def get_inputs():
    return [torch.randn(16, dim, 64, 64)]


def get_init_inputs():
    return [dim, out_dim]
