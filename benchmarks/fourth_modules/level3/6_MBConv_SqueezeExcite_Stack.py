import torch
import torch.nn as nn
import torch.nn.functional as F

class SE(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.down = nn.Conv2d(channels, reduced, 1)
        self.up = nn.Conv2d(reduced, channels, 1)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        s = self.up(F.silu(self.down(s)))
        return x * torch.sigmoid(s)

class MBConv(nn.Module):
    """Inverted residual: expand, depthwise, squeeze-excite, project."""
    def __init__(self, cin, cout, expand, kernel, stride):
        super().__init__()
        mid = cin * expand
        self.use_skip = stride == 1 and cin == cout
        self.expand = nn.Sequential(nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.SiLU())
        self.dw = nn.Sequential(
            nn.Conv2d(mid, mid, kernel, stride, kernel // 2, groups=mid, bias=False),
            nn.BatchNorm2d(mid), nn.SiLU())
        self.se = SE(mid, max(1, cin // 4))
        self.project = nn.Sequential(nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.project(self.se(self.dw(self.expand(x))))
        return x + y if self.use_skip else y

class Model(nn.Module):
    def __init__(self, cin, num_classes):
        super().__init__()
        self.blocks = nn.Sequential(
            MBConv(cin, 40, 6, 5, 2),
            MBConv(40, 40, 6, 5, 1),
            MBConv(40, 80, 6, 3, 2),
            MBConv(80, 80, 6, 3, 1),
        )
        self.fc = nn.Linear(80, num_classes)

    def forward(self, x):
        x = self.blocks(x)
        return self.fc(x.mean([2, 3]))

batch_size = 32
cin = 24

def get_inputs():
    return [torch.rand(batch_size, cin, 56, 56)]

def get_init_inputs():
    return [cin, 1000]
