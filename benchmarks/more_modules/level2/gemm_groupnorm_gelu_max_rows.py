import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Model that performs a GEMM, group normalization, GELU, and a maximum over groups of features.
    """
    def __init__(self, in_features, out_features, num_groups, pool):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.pool = pool

    def forward(self, x):
        x = self.gemm(x)
        x = self.group_norm(x)
        x = F.gelu(x, approximate="tanh")
        x = x.view(x.size(0), -1, self.pool)
        x, _ = torch.max(x, dim=2)
        return x

batch_size = 4096
in_features = 2048
out_features = 4096
num_groups = 32
pool = 8

def get_inputs():
    return [torch.randn(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features, num_groups, pool]
