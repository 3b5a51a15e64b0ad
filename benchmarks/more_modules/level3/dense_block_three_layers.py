import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, num_layers: int, num_input_features: int, growth_rate: int):
        """
        A dense block: each layer sees the concatenation of all the features before it.
        """
        super(Model, self).__init__()
        self.norms = nn.ModuleList()
        self.convs = nn.ModuleList()
        for i in range(num_layers):
            width = num_input_features + i * growth_rate
            self.norms.append(nn.BatchNorm2d(width))
            self.convs.append(nn.Conv2d(width, growth_rate, kernel_size=3, padding=1, bias=False))

    def forward(self, x):
        features = [x]
        for norm, conv in zip(self.norms, self.convs):
            new = conv(F.relu(norm(torch.cat(features, 1))))
            features.append(new)
        return torch.cat(features, 1)

batch_size = 24
num_layers = 3
num_input_features = 48
growth_rate = 32
height, width = 96, 96

def get_inputs():
    return [torch.rand(batch_size, num_input_features, height, width)]

def get_init_inputs():
    return [num_layers, num_input_features, growth_rate]
