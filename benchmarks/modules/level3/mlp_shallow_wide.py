import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Two wide hidden layers with different activations and a linear head.
    """

    def __init__(self, n_in, n_hidden, n_out):
        super(Model, self).__init__()
        self.lin1 = nn.Linear(n_in, n_hidden)
        self.lin2 = nn.Linear(n_hidden, n_hidden // 2)
        self.head = nn.Linear(n_hidden // 2, n_out, bias=False)

    def forward(self, x):
        h = F.elu(self.lin1(x))
        h = torch.tanh(self.lin2(h))
        return self.head(h)


n_in = 1024
n_hidden = 6144
n_out = 512


def get_inputs():
    return [torch.randn(2048, n_in) * 3]


def get_init_inputs():
    return [n_in, n_hidden, n_out]
