import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    GEMM, softplus, each row made to sum to one, then a weight per feature.
    """
    def __init__(self, in_features, out_features):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.weight = nn.Parameter(torch.rand(out_features))

    def forward(self, x):
        x = self.gemm(x)
        x = F.softplus(x)
        x = x / x.sum(dim=1, keepdim=True)
        x = x * self.weight
        return x

batch_size = 2048
in_features = 2048
out_features = 8192

def get_inputs():
    return [torch.rand(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features]
