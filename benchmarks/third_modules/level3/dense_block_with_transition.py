import torch
import torch.nn as nn


class DenseLayer(nn.Module):
    def __init__(self, in_features, growth, bottleneck):
        super().__init__()
        self.net = nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(),
            nn.Conv2d(in_features, bottleneck * growth, kernel_size=1, bias=False),
            nn.BatchNorm2d(bottleneck * growth),
            nn.ReLU(),
            nn.Conv2d(bottleneck * growth, growth, kernel_size=3, padding=1, bias=False),
        )

    def forward(self, x):
        return self.net(x)


class Model(nn.Module):
    """
    Densely connected bottleneck layers, followed by a compressing transition with average pooling.
    """

    def __init__(self, in_features, growth, num_layers, bottleneck, compression):
        super().__init__()
        self.layers = nn.ModuleList()
        features = in_features
        for _ in range(num_layers):
            self.layers.append(DenseLayer(features, growth, bottleneck))
            features += growth
        self.transition = nn.Sequential(
            nn.BatchNorm2d(features),
            nn.ReLU(),
            nn.Conv2d(features, int(features * compression), kernel_size=1, bias=False),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )

    def forward(self, x):
        collected = [x]
        for layer in self.layers:
            collected.append(layer(torch.cat(collected, 1)))
        return self.transition(torch.cat(collected, 1))


batch_size = 32
in_features = 64
growth = 24
num_layers = 5
bottleneck = 4
compression = 0.5


def get_inputs():
    return [torch.randn(batch_size, in_features, 44, 44)]


def get_init_inputs():
    return [in_features, growth, num_layers, bottleneck, compression]
