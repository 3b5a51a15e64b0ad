import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Linear, logsumexp over the features, leaky ReLU and Mish on what is left.
    """
    def __init__(self, in_features, out_features, shift):
        super(Model, self).__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.shift = shift
        self.leaky_relu = nn.LeakyReLU(0.05)
        self.mish = nn.Mish()

    def forward(self, x):
        x = self.linear(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = x - self.shift
        x = self.leaky_relu(x)
        x = self.mish(x)
        return x

batch_size = 8192
in_features = 1024
out_features = 3072
shift = 8.5

def get_inputs():
    spread = 1.0 + 2.0 * torch.rand(batch_size, 1)
    return [torch.randn(batch_size, in_features) * spread]

def get_init_inputs():
    return [in_features, out_features, shift]
