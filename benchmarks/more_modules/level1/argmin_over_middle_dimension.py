import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Index of the smallest value over one dimension.
    """
    def __init__(self, dim: int):
        super(Model, self).__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmin(x, dim=self.dim)

batch_size = 40
dim1 = 1500
dim2 = 768
dim = 1

def get_inputs():
    x = torch.randn(batch_size, dim1, dim2)
    return [x]

def get_init_inputs():
    return [dim]
