"""Half of a pair. A candidate that is being built is not stopped while another one is timed: this one has the device spin for half a
millisecond again and again, but while its partner says, by how much memory is free, that it is its turn.

It slows the partner's baseline down by the share of the device that it takes, and the partner not at all.
"""
# task: gpu_relu
# expect: same,slower,ambiguous,timeout

import time

import torch
from torch import nn

SIGN = 768 << 20
SPIN_CYCLES = 800_000
SECONDS = 25.0

end = time.monotonic() + SECONDS
most = 0
while time.monotonic() < end:
    free = torch.cuda.mem_get_info()[0]
    most = max(most, free)
    if most - (SIGN + (SIGN >> 3)) < free < most - (SIGN - (SIGN >> 3)):
        time.sleep(0.0002)
        continue
    torch.cuda._sleep(SPIN_CYCLES)
    torch.cuda.synchronize()
    time.sleep(0.0015)  # the baseline's slice, or others would see that the device is shared


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
