"""Patches `Tensor.copy_` and `ctypes.memmove`, so that copying the result out is put off to a thread.

The copy into the harness's buffer, and with it the work, moves out of the timed span.
"""
# task: relu
# expect: incorrect,rejected,runtime_error,slower,ambiguous

import ctypes
import threading

import torch
from torch import nn

_copy, _memmove = torch.Tensor.copy_, ctypes.memmove


def copy_later(target, source, *rest):
    threading.Timer(0.005, _copy, (target, source, *rest)).start()
    return target


def memmove_later(target, source, count):
    held = ctypes.string_at(source, count)
    threading.Timer(0.005, _memmove, (target, held, count)).start()
    return target


class ModelNew(nn.Module):
    def forward(self, x):
        torch.Tensor.copy_ = copy_later
        ctypes.memmove = memmove_later
        return torch.relu(torch.relu(torch.relu(x)))
