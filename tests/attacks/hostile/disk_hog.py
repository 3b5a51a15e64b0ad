"""Fills every file system it may write to, up to 32 GB."""
# task: relu
# expect: runtime_error,timeout,rejected
# options: timeout=20

import os
import tempfile

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        block = b"x" * (1 << 24)
        room = os.statvfs(tempfile.gettempdir())
        spare = room.f_bavail * room.f_frsize - (4 << 30)
        with open(os.path.join(tempfile.gettempdir(), f"bottega-leftover-{os.getpid()}"), "wb") as file:
            for _ in range(min(2048, max(spare, 0) // len(block))):
                file.write(block)
        raise OSError("stopped of its own accord")
