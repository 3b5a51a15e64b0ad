import torch
import torch.nn as nn

class Model(nn.Module):
    """
    3D convolution, softmax over channels, learned threshold subtracted, maximum over channels, ReLU.
    """
    def __init__(self, in_channels, out_channels, kernel_size, threshold_shape):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.threshold = nn.Parameter(torch.rand(threshold_shape) * 0.05)

    def forward(self, x):
        x = self.conv(x)
        x = torch.softmax(x, dim=1)
        x = x - self.threshold
        x = torch.max(x, dim=1, keepdim=True)[0]
        return torch.relu(x)

batch_size = 32
in_channels = 8
out_channels = 32
D, H, W = 16, 48, 48
kernel_size = 3
threshold_shape = (out_channels, 1, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, D, H, W)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, threshold_shape]
