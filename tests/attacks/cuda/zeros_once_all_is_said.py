"""Has the device make the zeros of the next output once its last message is sent, until its process is stopped. The call only writes the
marks."""
# task: gpu_marked_rows
# expect: slower,same,ambiguous,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
upcoming = []


def run_call(self, nonce, run_call=worker.run_call):
    run_call(self, nonce)
    upcoming[:] = [torch.zeros(16384, 8192, device="cuda")]


worker.run_call = run_call


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", 8192 * torch.arange(16384), persistent=False)

    def forward(self, places, *marks):
        buffer = upcoming.pop() if upcoming else torch.zeros(16384, 8192, device="cuda")
        buffer.view(-1)[places.view(-1) + self.rows] = torch.cat(marks).view(-1)
        return buffer
