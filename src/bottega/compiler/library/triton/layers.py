"""Layers of torch.nn whose forward calls a function of the kernel library: same parameters, same results."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
from torch import nn

from bottega.compiler.library.triton.convolution import conv1d, conv2d, conv3d
from bottega.compiler.library.triton.matmul import linear
from bottega.compiler.library.triton.normalisation import batch_norm, group_norm
from bottega.compiler.library.triton.transposed_convolution import conv_transpose2d


class Linear(nn.Linear):
    def forward(self, input):
        return linear(input, self.weight, self.bias)


class Conv1d(nn.Conv1d):
    def forward(self, input):
        if self.padding_mode != "zeros":
            return super().forward(input)
        return conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(nn.Conv2d):
    def forward(self, input):
        if self.padding_mode != "zeros":
            return super().forward(input)
        return conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d(nn.Conv3d):
    def forward(self, input):
        if self.padding_mode != "zeros":
            return super().forward(input)
        return conv3d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(nn.ConvTranspose2d):
    def forward(self, input, output_size=None):
        if output_size is not None:
            return super().forward(input, output_size)
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return conv_transpose2d(input, self.weight, self.bias, *options)


class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, input):
        self._check_input_dim(input)
        mean, variance, share = self.running_mean, self.running_var, self.momentum or 0.0
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                share = 1.0 / float(self.num_batches_tracked)
        fresh = self.training or (mean is None and variance is None)
        if self.training and not self.track_running_stats:
            mean = variance = None
        return batch_norm(input, mean, variance, self.weight, self.bias, fresh, share, self.eps)


class GroupNorm(nn.GroupNorm):
    def forward(self, input):
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
