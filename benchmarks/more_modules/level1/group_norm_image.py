import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Group Normalization over an image batch.
    """
    def __init__(self, num_features, num_groups, eps=1e-5):
        super(Model, self).__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features, eps=eps)

    def forward(self, x):
        return self.gn(x)

batch_size = 28
features = 96
num_groups = 12
dim1 = 128
dim2 = 144

def get_inputs():
    x = torch.randn(batch_size, features, dim1, dim2) * 2.0 + 0.3
    return [x]

def get_init_inputs():
    return [features, num_groups, 1e-4]
