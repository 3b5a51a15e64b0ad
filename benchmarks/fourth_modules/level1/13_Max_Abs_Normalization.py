import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Divides every row by its largest absolute value (infinity norm).
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x):
        return x / x.abs().amax(dim=1, keepdim=True).clamp_min(1e-12)

rows = 8192
cols = 32768

def get_inputs():
    return [torch.randn(rows, cols)]

def get_init_inputs():
    return []
