import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Grouped convolution whose channels are gated by a linear map of their global averages.
    """
    def __init__(self, channels, groups):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=groups)
        self.gate = nn.Linear(channels, channels)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        w = torch.sigmoid(self.gate(x.mean(dim=(2, 3))))
        return x * w[:, :, None, None]

batch_size = 32
channels = 128
groups = 4
size = 80

def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]

def get_init_inputs():
    return [channels, groups]
