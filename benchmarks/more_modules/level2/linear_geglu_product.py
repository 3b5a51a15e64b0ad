import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    GEGLU: one projection split in two halves, the second gates the first.
    """
    def __init__(self, dim, hidden):
        super().__init__()
        self.proj = nn.Linear(dim, hidden * 2)

    def forward(self, x):
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * F.gelu(gate)

batch_size = 8
tokens = 1024
dim = 640
hidden = 2560

def get_inputs():
    return [torch.randn(batch_size, tokens, dim)]

def get_init_inputs():
    return [dim, hidden]
