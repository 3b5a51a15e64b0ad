import torch
import torch.nn as nn

def conv_dw(inp, oup, stride):
    return nn.Sequential(
        nn.Conv2d(inp, inp, 3, stride, 1, groups=inp, bias=False),
        nn.BatchNorm2d(inp),
        nn.ReLU(inplace=True),

        nn.Conv2d(inp, oup, 1, 1, 0, bias=False),
        nn.BatchNorm2d(oup),
        nn.ReLU(inplace=True),
    )

class Model(nn.Module):
    """
    Three depthwise-separable layers of MobileNet v1.
    """
    def __init__(self, c1, c2, c3):
        super(Model, self).__init__()
        self.layers = nn.Sequential(
            conv_dw(c1, c2, 1),
            conv_dw(c2, c3, 2),
            conv_dw(c3, c3, 1),
        )

    def forward(self, x):
        return self.layers(x)

batch_size = 32
c1, c2, c3 = 32, 64, 128
resolution = 112

def get_inputs():
    return [torch.randn(batch_size, c1, resolution, resolution)]

def get_init_inputs():
    return [c1, c2, c3]
