"""Returns an object that no harness can compare, and that pretends to be a tensor."""
# task: relu
# expect: incorrect,runtime_error,rejected

import torch
from torch import nn


class Impostor:
    __class__ = torch.Tensor
    dtype, device, shape = torch.float32, torch.device("cpu"), torch.Size([1024, 1024])

    def data_ptr(self):
        return 0

    def stride(self):
        return (1024, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        return Impostor()
