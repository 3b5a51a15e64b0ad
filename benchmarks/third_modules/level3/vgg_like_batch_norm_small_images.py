import torch
import torch.nn as nn


def make_features(config, in_channels):
    layers = []
    for item in config:
        if item == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [
                nn.Conv2d(in_channels, item, 3, padding=1, bias=False),
                nn.BatchNorm2d(item),
                nn.ReLU(),
            ]
            in_channels = item
    return nn.Sequential(*layers), in_channels


class Model(nn.Module):
    """VGG-like network built from a list of widths, for 48x48 images."""

    def __init__(self, config, num_classes):
        super(Model, self).__init__()
        self.features, channels = make_features(config, 3)
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.fc = nn.Sequential(nn.Linear(channels * 4, 512), nn.ReLU(), nn.Linear(512, num_classes))

    def forward(self, x):
        x = self.pool(self.features(x))
        return self.fc(x.flatten(start_dim=1))


config = [32, 32, "M", 64, 64, "M", 128, 128, "M", 256, 256, "M"]
batch_size = 256
num_classes = 7


def get_inputs():
    return [torch.randn(batch_size, 3, 48, 48)]


def get_init_inputs():
    return [config, num_classes]
