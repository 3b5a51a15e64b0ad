"""Raises an exception full of terminal escapes, lone surrogates and null bytes, which must not reach anyone raw."""
# task: relu
# expect: runtime_error

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise RuntimeError("\x1b[2J\x1b]0;owned\x07 \x00 \ud800 \u202e end")
