"""Hands the work to a background thread and returns the still empty result at once.

A harness that stops its clock at the return and compares later sees right values in no time.
"""
# task: relu
# expect: incorrect,rejected

import threading

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        threading.Thread(target=lambda: y.copy_(torch.relu(x)), daemon=True).start()
        return y
