import torch
import torch.nn as nn


class Model(nn.Module):
    """
    VGG-like network built from a configuration list.
    """

    def __init__(self, config, in_channels, image_size, num_classes):
        super().__init__()
        layers = []
        c = in_channels
        for item in config:
            if item == "M":
                layers.append(nn.MaxPool2d(2, 2))
                image_size //= 2
            else:
                conv = nn.Conv2d(c, item, kernel_size=3, padding=1)
                nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
                layers.append(conv)
                layers.append(nn.ReLU())
                c = item
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(c * image_size * image_size, 512),
            nn.ReLU(),
            nn.Linear(512, num_classes),
        )

    def forward(self, x):
        x = self.features(x)
        x = x.view(x.size(0), -1)
        return self.classifier(x)


CONFIG = [32, 32, "M", 64, 64, "M", 128, 128, "M", 192, "M"]


def get_inputs():
    return [torch.randn(64, 3, 96, 96)]


def get_init_inputs():
    return [CONFIG, 3, 96, 50]
