import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed 3D convolution, constant added, max pooling, logsumexp over channels, ReLU.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, constant):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=False)
        self.constant = constant
        self.max_pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = x + self.constant
        x = self.max_pool(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return torch.relu(x)

batch_size = 16
in_channels = 16
out_channels = 24
depth, height, width = 16, 32, 32
kernel_size = 3
stride = 2
padding = 1
constant = -2.0

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, constant]
