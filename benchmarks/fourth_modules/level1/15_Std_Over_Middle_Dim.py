import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Sample standard deviation over one dimension.
    """
    def __init__(self, dim: int):
        super(Model, self).__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.std(x, dim=self.dim)

batch_size = 64
dim1 = 2048
dim2 = 2047
reduce_dim = 1

def get_inputs():
    return [torch.randn(batch_size, dim1, dim2)]

def get_init_inputs():
    return [reduce_dim]
