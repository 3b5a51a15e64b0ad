import torch
import torch.nn as nn
import torch.nn.functional as F

class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out = out + self.shortcut(x)
        return F.relu(out)

class Model(nn.Module):
    """
    A ResNet of the CIFAR kind: a stem, three stages of two basic blocks, a linear classifier.
    """
    def __init__(self, widths, num_classes):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(widths[0])
        blocks = []
        prev = widths[0]
        for i, w in enumerate(widths):
            blocks.append(BasicBlock(prev, w, stride=1 if i == 0 else 2))
            blocks.append(BasicBlock(w, w))
            prev = w
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(prev, num_classes)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        x = x.mean(dim=(2, 3))
        return self.fc(x)

batch_size = 512
widths = [32, 64, 128]
num_classes = 10

def get_inputs():
    return [torch.randn(batch_size, 3, 32, 32)]

def get_init_inputs():
    return [widths, num_classes]
