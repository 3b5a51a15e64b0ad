import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Layer normalisation over the last dimension.
    """

    def __init__(self, hidden, eps=1e-6):
        super(Model, self).__init__()
        self.gamma = nn.Parameter(1.0 + 0.2 * torch.randn(hidden))
        self.beta = nn.Parameter(0.2 * torch.randn(hidden))
        self.hidden = hidden
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, (self.hidden,), self.gamma, self.beta, self.eps)


batch = 48
seq = 640
hidden = 1152


def get_inputs():
    return [torch.rand(batch, seq, hidden) * 4 - 1]


def get_init_inputs():
    return [hidden]
