import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Parametric ReLU with one slope per channel.
    """
    def __init__(self, num_channels, init):
        super(Model, self).__init__()
        self.act = nn.PReLU(num_parameters=num_channels, init=init)

    def forward(self, x):
        return self.act(x)

batch_size = 64
num_channels = 48
size = 192

def get_inputs():
    return [torch.randn(batch_size, num_channels, size, size)]

def get_init_inputs():
    return [num_channels, 0.17]
