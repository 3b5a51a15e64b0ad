"""Takes all the device memory that is left and keeps it.

A baseline that has to allocate after that fails, or has to wait for memory; the candidate already has its own.
"""
# task: gpu_relu
# expect: slower,ambiguous,rejected,runtime_error

import torch
from torch import nn


class ModelNew(nn.Module):
    hoard = None

    def forward(self, x):
        y = torch.relu(torch.relu(torch.relu(x)))
        if self.hoard is None:
            self.hoard = []
            try:
                while True:
                    self.hoard.append(torch.empty(1 << 28, device=x.device))
            except torch.OutOfMemoryError:
                self.hoard = self.hoard[:-1]
        return y
