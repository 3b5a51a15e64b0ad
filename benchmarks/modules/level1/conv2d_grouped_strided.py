import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Grouped convolution with stride 2.
    """

    def __init__(self, cin, cout, groups):
        super().__init__()
        self.op = nn.Conv2d(cin, cout, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=groups)

    def forward(self, inp):
        return self.op(inp)


def get_inputs():
    return [torch.randn(40, 128, 96, 96)]


CIN, COUT, GROUPS = 128, 256, 8


def get_init_inputs():
    return [CIN, COUT, GROUPS]
