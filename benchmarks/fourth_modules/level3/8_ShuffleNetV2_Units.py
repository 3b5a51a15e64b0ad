import torch
import torch.nn as nn


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    n, c, h, w = x.size()
    x = x.view(n, groups, c // groups, h, w)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(n, c, h, w)


class SplitUnit(nn.Module):
    """Stride-1 unit: half of the channels pass untouched."""

    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False), nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
        )

    def forward(self, x):
        keep, work = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((keep, self.branch(work)), dim=1), 2)


class DownUnit(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        half = cout // 2
        self.left = nn.Sequential(
            nn.Conv2d(cin, cin, 3, stride=2, padding=1, groups=cin, bias=False), nn.BatchNorm2d(cin),
            nn.Conv2d(cin, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
        )
        self.right = nn.Sequential(
            nn.Conv2d(cin, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
            nn.Conv2d(half, half, 3, stride=2, padding=1, groups=half, bias=False), nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return channel_shuffle(torch.cat((self.left(x), self.right(x)), dim=1), 2)


class Model(nn.Module):
    def __init__(self, cin, cout, repeats):
        super().__init__()
        self.down = DownUnit(cin, cout)
        self.units = nn.ModuleList([SplitUnit(cout) for _ in range(repeats)])

    def forward(self, x):
        x = self.down(x)
        for unit in self.units:
            x = unit(x)
        return x


batch_size = 64
cin = 24
cout = 116
repeats = 3


def get_inputs():
    return [torch.randn(batch_size, cin, 112, 112)]


def get_init_inputs():
    return [cin, cout, repeats]
