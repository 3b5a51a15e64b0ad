import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Linear, 1D average pooling along the features, SiLU and LayerNorm.
    """
    def __init__(self, in_features, out_features, pool_kernel_size):
        super(Model, self).__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.avg_pool = nn.AvgPool1d(kernel_size=pool_kernel_size)
        self.norm = nn.LayerNorm(out_features // pool_kernel_size)

    def forward(self, x):
        x = self.matmul(x)
        x = self.avg_pool(x.unsqueeze(1)).squeeze(1)
        x = F.silu(x)
        return self.norm(x)

batch_size = 4096
in_features = 1536
out_features = 6144
pool_kernel_size = 4

def get_inputs():
    return [torch.randn(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features, pool_kernel_size]
