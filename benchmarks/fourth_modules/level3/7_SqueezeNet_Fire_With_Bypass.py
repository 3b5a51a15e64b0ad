import torch
import torch.nn as nn

class Fire(nn.Module):
    def __init__(self, in_channels, squeeze, expand, bypass=False):
        super(Fire, self).__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze, kernel_size=1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, kernel_size=1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, kernel_size=3, padding=1)
        self.act = nn.ReLU(inplace=True)
        self.bypass = bypass

    def forward(self, x):
        s = self.act(self.squeeze(x))
        out = torch.cat([self.act(self.expand1x1(s)), self.act(self.expand3x3(s))], 1)
        if self.bypass:
            out = out + x
        return out

class Model(nn.Module):
    """
    Short SqueezeNet with residual bypasses around every second fire module.
    """
    def __init__(self, num_classes=100):
        super(Model, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=3, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(64, 16, 64),
            Fire(128, 16, 64, bypass=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(128, 32, 128),
            Fire(256, 32, 128, bypass=True),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.0),
            nn.Conv2d(256, num_classes, kernel_size=1),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)

batch_size = 64
num_classes = 100

def get_inputs():
    return [torch.rand(batch_size, 3, 224, 224)]

def get_init_inputs():
    return [num_classes]
