import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Softplus activation with non-default beta and threshold.
    """
    def __init__(self, beta, threshold):
        super(Model, self).__init__()
        self.act = nn.Softplus(beta=beta, threshold=threshold)

    def forward(self, x):
        return self.act(x)

batch_size = 2048
dim = 24576

def get_inputs():
    x = torch.randn(batch_size, dim) * 4.0
    return [x]

def get_init_inputs():
    return [1.5, 10.0]
