import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed convolution, batch norm, softsign, global max pooling, linear layer, softmax
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, num_classes):
        super(Model, self).__init__()
        self.deconv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.bn = nn.BatchNorm2d(out_channels)
        self.pool = nn.AdaptiveMaxPool2d(1)
        self.head = nn.Linear(out_channels, num_classes)

    def forward(self, x):
        x = self.bn(self.deconv(x))
        x = x / (1 + x.abs())
        x = self.pool(x).flatten(1)
        return torch.softmax(self.head(x), dim=-1)

batch_size = 48
in_channels = 64
out_channels = 80
height, width = 40, 40
kernel_size = 3
stride = 3
num_classes = 365

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, num_classes]
