"""Raises an exception whose text takes for ever to make."""
# task: relu
# expect: runtime_error,timeout
# options: timeout=4

import time

from torch import nn


class Endless(Exception):
    def __str__(self):
        while True:
            time.sleep(1)


class ModelNew(nn.Module):
    def forward(self, x):
        raise Endless
