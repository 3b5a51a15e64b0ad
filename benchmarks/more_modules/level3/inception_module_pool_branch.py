import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Inception module with four branches concatenated over channels.
    """
    def __init__(self, in_channels, out_1x1, reduce_3x3, out_3x3, reduce_5x5, out_5x5, pool_proj):
        super(Model, self).__init__()
        self.branch1x1 = nn.Conv2d(in_channels, out_1x1, kernel_size=1)
        self.reduce3 = nn.Conv2d(in_channels, reduce_3x3, kernel_size=1)
        self.branch3x3 = nn.Conv2d(reduce_3x3, out_3x3, kernel_size=3, padding=1)
        self.reduce5 = nn.Conv2d(in_channels, reduce_5x5, kernel_size=1)
        self.branch5x5 = nn.Conv2d(reduce_5x5, out_5x5, kernel_size=5, padding=2)
        self.branch_pool = nn.Conv2d(in_channels, pool_proj, kernel_size=1)

    def forward(self, x):
        b1 = F.relu(self.branch1x1(x))
        b3 = F.relu(self.branch3x3(F.relu(self.reduce3(x))))
        b5 = F.relu(self.branch5x5(F.relu(self.reduce5(x))))
        bp = F.max_pool2d(x, kernel_size=3, stride=1, padding=1)
        bp = F.relu(self.branch_pool(bp))
        return torch.cat((b1, b3, b5, bp), dim=1)

batch_size = 64
in_channels = 192
height = 42
width = 42

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, 64, 96, 128, 16, 32, 32]
