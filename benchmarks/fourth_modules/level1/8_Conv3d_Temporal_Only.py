import torch
import torch.nn as nn


class Model(nn.Module):
    """Temporal convolution of video clips: kernel (5, 1, 1)."""

    def __init__(self, c_in, c_out, t_kernel, t_dilation):
        super().__init__()
        self.conv = nn.Conv3d(c_in, c_out, kernel_size=(t_kernel, 1, 1),
                              padding=(t_dilation * (t_kernel - 1) // 2, 0, 0),
                              dilation=(t_dilation, 1, 1))

    def forward(self, clip):
        return self.conv(clip)


n_clips = 8
c_in, c_out = 32, 64
frames, h, w = 24, 56, 56
t_kernel = 5
t_dilation = 2


def get_inputs():
    return [torch.randn(n_clips, c_in, frames, h, w)]


def get_init_inputs():
    return [c_in, c_out, t_kernel, t_dilation]
