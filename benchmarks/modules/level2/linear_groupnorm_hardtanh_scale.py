import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Linear layer, group normalisation, hard tanh, scale.
    """

    def __init__(self, in_features, out_features, num_groups, scale, lo=-1.0, hi=1.0):
        super(Model, self).__init__()
        self.fc = nn.Linear(in_features, out_features)
        self.gn = nn.GroupNorm(num_groups, out_features)
        self.hardtanh = nn.Hardtanh(lo, hi)
        self.scale = scale

    def forward(self, x):
        x = self.fc(x)
        x = self.gn(x)
        x = self.hardtanh(x)
        return x * self.scale


batch_size = 6144
in_features = 1536
out_features = 3072


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, 24, 0.7, -1.5, 1.8]
