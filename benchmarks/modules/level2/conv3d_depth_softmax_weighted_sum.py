import torch
import torch.nn as nn


class Model(nn.Module):
    """
    3D convolution, softmax over the depth, sum of the features weighted by it.
    """

    def __init__(self, cin, cout):
        super().__init__()
        self.features = nn.Conv3d(cin, cout, kernel_size=3, padding=1)
        self.sharpness = nn.Parameter(torch.rand(cout, 1, 1, 1) * 4)

    def forward(self, x):
        f = self.features(x)
        attention = torch.softmax(f * self.sharpness, dim=2)
        return (f * attention).sum(dim=2)


batch = 8


def get_inputs():
    return [torch.randn(batch, 16, 16, 64, 72)]


def get_init_inputs():
    return [16, 32]
