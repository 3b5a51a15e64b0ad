import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Matrix product with a raw weight, tanh, and a row sum multiplied by a constant.
    """
    def __init__(self, input_size, hidden_size, scaling_factor):
        super(Model, self).__init__()
        self.weight = nn.Parameter(torch.randn(hidden_size, input_size) / input_size ** 0.5)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = torch.matmul(x, self.weight.T)
        x = torch.tanh(x)
        x = torch.sum(x, dim=1, keepdim=True)
        x = x * self.scaling_factor
        return x

batch_size = 3000
input_size = 3000
hidden_size = 5000
scaling_factor = 0.01

def get_inputs():
    return [torch.randn(batch_size, input_size)]

def get_init_inputs():
    return [input_size, hidden_size, scaling_factor]
