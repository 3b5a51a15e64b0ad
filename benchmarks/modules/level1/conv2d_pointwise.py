import torch
import torch.nn as nn


class Model(nn.Module):
    """1x1 convolution, no bias."""

    def __init__(self, in_features, out_features):
        super(Model, self).__init__()
        self.mix = nn.Conv2d(in_features, out_features, kernel_size=1, bias=False)

    def forward(self, x):
        y = self.mix(x)
        return y


in_features = 160
out_features = 112
batch_size = 16
side = 128


def get_inputs():
    x = torch.rand(batch_size, in_features, side, side)
    return [x]


def get_init_inputs():
    return [in_features, out_features]
