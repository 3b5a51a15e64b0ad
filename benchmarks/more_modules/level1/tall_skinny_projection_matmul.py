import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Multiplies a very tall matrix with a small one.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, tall, small):
        return torch.mm(tall, small)

rows = 393216
inner = 80
cols = 112

def get_inputs():
    tall = torch.randn(rows, inner)
    small = torch.randn(inner, cols)
    return [tall, small]

def get_init_inputs():
    return []
