import torch
import torch.nn as nn
import torch.nn.functional as F

class Bottleneck(nn.Module):
    def __init__(self, in_planes, planes, stride=1, expansion=4):
        super(Bottleneck, self).__init__()
        out_planes = planes * expansion
        self.conv1 = nn.Conv2d(in_planes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, out_planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_planes)
        self.shortcut = None
        if stride != 1 or in_planes != out_planes:
            # ResNet-D style: average pool before the 1x1 projection
            self.shortcut = nn.Sequential(
                nn.AvgPool2d(stride) if stride > 1 else nn.Identity(),
                nn.Conv2d(in_planes, out_planes, 1, bias=False),
                nn.BatchNorm2d(out_planes),
            )

    def forward(self, x):
        identity = x if self.shortcut is None else self.shortcut(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + identity)

class Model(nn.Module):
    """
    One stage of a bottleneck residual network (downsampling block, then plain ones).
    """
    def __init__(self, in_planes, planes, num_blocks):
        super(Model, self).__init__()
        blocks = [Bottleneck(in_planes, planes, stride=2)]
        blocks += [Bottleneck(planes * 4, planes) for _ in range(num_blocks - 1)]
        self.stage = nn.Sequential(*blocks)

    def forward(self, x):
        return self.stage(x)

batch_size = 16
in_planes = 256
planes = 128
num_blocks = 3

def get_inputs():
    return [torch.rand(batch_size, in_planes, 56, 56)]

def get_init_inputs():
    return [in_planes, planes, num_blocks]
