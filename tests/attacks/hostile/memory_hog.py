"""Takes memory until there is none.

(It stops at the last two gigabytes of the machine, so that only a missing limit, and no neighbour, pays for it.)
"""
# task: relu
# expect: runtime_error,timeout
# options: timeout=30

import torch
from torch import nn


def available():
    fields = dict(line.split(":") for line in open("/proc/meminfo"))
    return int(fields["MemAvailable"].split()[0]) << 10


class ModelNew(nn.Module):
    def forward(self, x):
        hoard = []
        while available() > 2 << 30:
            hoard.append(torch.ones(1 << 26))
        raise MemoryError(f"stopped of its own accord with {len(hoard)} pieces of 256 MB")
