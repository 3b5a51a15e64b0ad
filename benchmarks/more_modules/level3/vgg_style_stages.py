import torch
import torch.nn as nn

class Model(nn.Module):
    """
    First three stages of a VGG with a linear head on the pooled features.
    """
    def __init__(self, cfg, num_classes):
        super(Model, self).__init__()
        layers = []
        c = 3
        for v in cfg:
            if v == "M":
                layers += [nn.MaxPool2d(2, 2)]
            else:
                layers += [nn.Conv2d(c, v, 3, padding=1), nn.BatchNorm2d(v), nn.ReLU()]
                c = v
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.fc = nn.Linear(c * 4, num_classes)

    def forward(self, x):
        x = self.features(x)
        x = self.pool(x)
        x = torch.flatten(x, start_dim=1)
        return self.fc(x)

batch_size = 24
cfg = [32, 32, "M", 64, 64, "M", 128, 128, "M"]
num_classes = 200

def get_inputs():
    return [torch.randn(batch_size, 3, 160, 160)]

def get_init_inputs():
    return [cfg, num_classes]
