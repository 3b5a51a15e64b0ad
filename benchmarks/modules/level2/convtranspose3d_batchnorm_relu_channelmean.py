import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 3D convolution, batch normalisation, ReLU, mean over the channels minus a threshold.
    """

    def __init__(self, cin, cout, threshold):
        super().__init__()
        self.up = nn.ConvTranspose3d(cin, cout, kernel_size=3, stride=(1, 2, 2), padding=1, output_padding=(0, 1, 1))
        self.bn = nn.BatchNorm3d(cout)
        self.threshold = threshold

    def forward(self, x):
        y = self.bn(self.up(x)).relu()
        return y.mean(1) - self.threshold


def get_inputs():
    return [torch.randn(6, 32, 14, 40, 48) * (0.3 + torch.rand(6, 1, 14, 40, 48))]


def get_init_inputs():
    return [32, 36, 0.25]
