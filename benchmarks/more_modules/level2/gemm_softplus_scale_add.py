import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Linear layer, softplus, constant scale, and a learned shift.
    """
    def __init__(self, in_features, out_features, scale):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.scale = scale
        self.shift = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        x = self.gemm(x)
        x = F.softplus(x)
        x = x * self.scale + self.shift
        return x

batch_size = 2048
in_features = 4096
out_features = 4096
scale = 1.3

def get_inputs():
    return [torch.rand(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features, scale]
