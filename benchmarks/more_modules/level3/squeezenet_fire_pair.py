import torch
import torch.nn as nn

class Fire(nn.Module):
    def __init__(self, inplanes, squeeze_planes, expand1x1_planes, expand3x3_planes):
        super(Fire, self).__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat([
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        ], 1)

class Model(nn.Module):
    """
    Two fire modules with a ceil-mode max pool between them.
    """
    def __init__(self, inplanes, squeeze, expand):
        super(Model, self).__init__()
        self.fire1 = Fire(inplanes, squeeze, expand, expand)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)
        self.fire2 = Fire(2 * expand, 2 * squeeze, 2 * expand, 2 * expand)

    def forward(self, x):
        x = self.fire1(x)
        x = self.pool(x)
        return self.fire2(x)

batch_size = 64
inplanes = 64
squeeze = 16
expand = 64

def get_inputs():
    return [torch.randn(batch_size, inplanes, 83, 83)]

def get_init_inputs():
    return [inplanes, squeeze, expand]
