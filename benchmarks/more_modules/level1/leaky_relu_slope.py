import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Applies LeakyReLU with a given slope.
    """
    def __init__(self, negative_slope: float = 0.01):
        super(Model, self).__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x, negative_slope=self.negative_slope)

batch_size = 3072
dim = 18000

def get_inputs():
    x = torch.randn(batch_size, dim)
    return [x]

def get_init_inputs():
    return [0.07]
