"""Turns every global switch of torch that slows others down: one thread, deterministic, anomaly checks, double by default.

Where reference and candidate share a process, the reference crawls from here on; this one switches back for its own call.
"""
# task: matmul
# expect: slower,same,ambiguous,rejected

import torch
from torch import nn

THREADS = torch.get_num_threads()


def slow_everybody_else():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.autograd.set_detect_anomaly(True)
    torch.set_default_dtype(torch.float64)
    torch.backends.mkldnn.enabled = False


class ModelNew(nn.Module):
    def forward(self, a, b):
        torch.set_num_threads(THREADS)
        torch.backends.mkldnn.enabled = True
        c = a @ b
        c = torch.addmm(c, a, b, beta=0)
        slow_everybody_else()
        return c
