import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed 2D convolution with asymmetric kernel, stride and output padding.
    """

    def __init__(self, cin, cout, kernel=(3, 5), stride=(2, 3), padding=(1, 2), output_padding=(1, 2)):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(cin, cout, *kernel))
        self.offset = nn.Parameter(torch.randn(cout) * 0.1)
        nn.init.normal_(self.kernel, std=0.05)
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding

    def forward(self, x):
        return F.conv_transpose2d(
            x, self.kernel, self.offset, stride=self.stride, padding=self.padding, output_padding=self.output_padding
        )


BATCH, CIN, COUT = 12, 96, 48
H, W = 72, 88


def get_inputs():
    return [torch.randn(BATCH, CIN, H, W)]


def get_init_inputs():
    return [CIN, COUT]
