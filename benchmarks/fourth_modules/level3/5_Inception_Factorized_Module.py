import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvBN(nn.Module):
    def __init__(self, cin, cout, **kw):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, bias=False, **kw)
        self.bn = nn.BatchNorm2d(cout, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Model(nn.Module):
    """
    Inception module with 7x7 convolutions factorized into 1x7 and 7x1, and a pooled branch.
    """

    def __init__(self, cin, c7):
        super().__init__()
        self.b1 = ConvBN(cin, 192, kernel_size=1)
        self.b7_1 = ConvBN(cin, c7, kernel_size=1)
        self.b7_2 = ConvBN(c7, c7, kernel_size=(1, 7), padding=(0, 3))
        self.b7_3 = ConvBN(c7, 192, kernel_size=(7, 1), padding=(3, 0))
        self.bd_1 = ConvBN(cin, c7, kernel_size=1)
        self.bd_2 = ConvBN(c7, c7, kernel_size=3, padding=1)
        self.bd_3 = ConvBN(c7, 192, kernel_size=3, padding=1)
        self.bp = ConvBN(cin, 192, kernel_size=1)

    def forward(self, x):
        y1 = self.b1(x)
        y7 = self.b7_3(self.b7_2(self.b7_1(x)))
        yd = self.bd_3(self.bd_2(self.bd_1(x)))
        yp = self.bp(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return torch.cat([y1, y7, yd, yp], 1)


batch_size = 32
cin = 384
c7 = 128


def get_inputs():
    return [torch.rand(batch_size, cin, 34, 34)]


def get_init_inputs():
    return [cin, c7]
