import torch
import torch.nn as nn


class Model(nn.Module):
    """Strided convolution, batch normalisation, leaky ReLU, max pooling."""

    def __init__(self, in_channels, out_channels, negative_slope):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=7, stride=2, padding=3),
            nn.BatchNorm2d(out_channels),
            nn.LeakyReLU(negative_slope),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )

    def forward(self, images):
        return self.layers(images)


in_channels = 3
out_channels = 48
batch_size = 40


def get_inputs():
    return [torch.randn(batch_size, in_channels, 256, 256)]


def get_init_inputs():
    return [in_channels, out_channels, 0.1]
