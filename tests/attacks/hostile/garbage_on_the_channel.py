"""Writes a length of four gigabytes, then deeply nested JSON, to every socket it holds."""
# task: relu
# expect: rejected,runtime_error,timeout
# options: timeout=10

import os
import stat

import torch
from torch import nn

GARBAGE = [b"\xff\xff\xff\xff", (100_000).to_bytes(4, "little") + b"[" * 100_000, os.urandom(4096)]


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        garbage = GARBAGE[self.calls % len(GARBAGE)]
        self.calls += 1
        for descriptor in range(3, 256):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.set_blocking(descriptor, False)
                    os.write(descriptor, garbage)
            except OSError:
                continue
        return torch.relu(x)
