"""Raises an exception whose own methods raise, lie about their type, or leave the process."""
# task: relu
# expect: runtime_error

import os

from torch import nn


class Spiteful(Exception):
    def __str__(self):
        os._exit(0)

    def __repr__(self):
        raise SystemExit(0)

    @property
    def __traceback__(self):
        raise KeyboardInterrupt


class ModelNew(nn.Module):
    def forward(self, x):
        raise Spiteful
