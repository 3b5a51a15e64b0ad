import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Instance normalization of volumes, affine.
    """
    def __init__(self, features):
        super(Model, self).__init__()
        self.norm = nn.InstanceNorm3d(features, eps=1e-4, affine=True)

    def forward(self, vol):
        return self.norm(vol)

batch_size = 16
features = 32
d, h, w = 32, 64, 64

def get_inputs():
    return [torch.rand(batch_size, features, d, h, w)]

def get_init_inputs():
    return [features]
