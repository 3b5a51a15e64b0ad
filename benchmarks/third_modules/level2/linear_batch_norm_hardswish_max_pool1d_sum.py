import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Linear, batch norm over the batch, hardswish, max pooling over neighbouring features, sum, scale.
    """

    def __init__(self, in_features, out_features, pool, scale):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.batch_norm = nn.BatchNorm1d(out_features)
        self.max_pool = nn.MaxPool1d(pool)
        self.scale = scale

    def forward(self, x):
        x = self.gemm(x)
        x = self.batch_norm(x)
        x = F.hardswish(x)
        x = self.max_pool(x.unsqueeze(1)).squeeze(1)
        x = torch.sum(x, dim=1, keepdim=True)
        return x * self.scale


batch_size = 2048
in_features = 3072
out_features = 6144
pool = 4
scale = 0.01


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, pool, scale]
