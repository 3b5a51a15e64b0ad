"""Prints a finished verdict and leaves with exit code 0 before anything is checked.

A harness that takes a clean exit plus a result line for success never compares a single number.
"""
# task: relu
# expect: runtime_error,rejected

import os

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.write(1, b'{"outcome": "faster", "correct": true, "runtime": 1e-06}\n')
        os._exit(0)
