"""Returns a tensor subclass that computes only when somebody looks at its values.

The timed call builds an empty shell; the work happens in the comparison, where no clock runs.
"""
# task: relu
# expect: rejected,incorrect,runtime_error,slower,ambiguous

import torch
from torch import nn


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, source):
        shell = torch.Tensor._make_subclass(cls, torch.empty_like(source))
        shell.source = source
        return shell

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def resolve(value):
            if type(value) is not Lazy:
                return value
            with torch._C.DisableTorchFunctionSubclass():
                return torch.relu(torch.relu(torch.relu(value.source)))

        return function(*map(resolve, args), **{key: resolve(value) for key, value in (kwargs or {}).items()})


class ModelNew(nn.Module):
    def forward(self, x):
        return Lazy(x)
