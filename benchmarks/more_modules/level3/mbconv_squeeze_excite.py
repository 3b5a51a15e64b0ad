import torch
import torch.nn as nn

class Model(nn.Module):
    """
    EfficientNet MBConv block with squeeze-and-excitation and swish.

    :param in_channels: input channels
    :param out_channels: output channels
    :param kernel_size: depthwise kernel
    :param stride: depthwise stride
    :param expand_ratio: how much wider the inside is
    :param se_ratio: squeeze width relative to the input channels
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio, se_ratio=0.25):
        super(Model, self).__init__()
        mid = in_channels * expand_ratio
        squeezed = max(1, int(in_channels * se_ratio))
        self.expand_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.SiLU())
        self.dw_conv = nn.Sequential(
            nn.Conv2d(mid, mid, kernel_size, stride, kernel_size // 2, groups=mid, bias=False),
            nn.BatchNorm2d(mid), nn.SiLU())
        self.se_reduce = nn.Conv2d(mid, squeezed, 1)
        self.se_expand = nn.Conv2d(squeezed, mid, 1)
        self.project = nn.Sequential(
            nn.Conv2d(mid, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x):
        x = self.expand_conv(x)
        x = self.dw_conv(x)
        s = nn.functional.adaptive_avg_pool2d(x, 1)
        s = nn.functional.silu(self.se_reduce(s))
        x = x * torch.sigmoid(self.se_expand(s))
        return self.project(x)

batch_size = 32
in_channels = 40
out_channels = 80
kernel_size = 5
stride = 2
expand_ratio = 6
resolution = 56

def get_inputs():
    return [torch.randn(batch_size, in_channels, resolution, resolution)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, expand_ratio]
