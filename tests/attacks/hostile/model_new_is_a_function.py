"""Defines ModelNew as a plain function that returns a plain function."""
# task: relu
# expect: compile_error,runtime_error

import torch


def ModelNew():
    return torch.relu
