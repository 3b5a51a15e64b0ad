import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    bfloat16 linear layer with a separate bias, GELU, and a residual connection.
    """
    def __init__(self, dim):
        super(Model, self).__init__()
        self.weight = nn.Parameter((torch.randn(dim, dim) * dim ** -0.5).to(torch.bfloat16))
        self.bias = nn.Parameter((torch.randn(dim) * 0.1).to(torch.bfloat16))

    def forward(self, x):
        y = F.linear(x, self.weight)
        y = y + self.bias
        y = F.gelu(y)
        return y + x

batch_size = 8192
dim = 2816

def get_inputs():
    return [torch.randn(batch_size, dim, dtype=torch.bfloat16)]

def get_init_inputs():
    return [dim]
