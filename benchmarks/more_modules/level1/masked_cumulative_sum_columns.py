import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Cumulative sum down the sequence that skips the masked-out positions.
    """
    def __init__(self):
        super().__init__()

    def forward(self, x, keep):
        """
        x: (batch, seq, dim) values
        keep: (batch, seq, 1) bool, False where the position does not count
        """
        return torch.cumsum(x.masked_fill(~keep, 0.0), dim=1)

batch_size = 32
seq = 1024
dim = 512

def get_inputs():
    x = torch.randn(batch_size, seq, dim)
    keep = torch.rand(batch_size, seq, 1) > 0.25
    return [x, keep]

def get_init_inputs():
    return []
