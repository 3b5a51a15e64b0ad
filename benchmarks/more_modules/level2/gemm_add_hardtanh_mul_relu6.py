import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    A chain after a gemm: add a second input, hardtanh, multiply with a third input, relu6.
    """
    def __init__(self, in_features, out_features):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features)

    def forward(self, x, y, z):
        x = self.gemm(x)
        x = x + y
        x = F.hardtanh(x, min_val=-2.0, max_val=2.0)
        x = x * z
        return F.relu6(x)

batch_size = 3072
in_features = 2048
out_features = 3584

def get_inputs():
    return [
        torch.randn(batch_size, in_features),
        torch.randn(batch_size, out_features),
        torch.randn(batch_size, out_features) * 4,
    ]

def get_init_inputs():
    return [in_features, out_features]
