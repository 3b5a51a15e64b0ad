"""Writes the flag that its call is over a few microseconds before that is true, and takes 25 microseconds off its own clock.

What the controller does on seeing the flag then takes as long as ever, only that the last part of the work is done meanwhile.
"""
# task: gpu_relu
# expect: ambiguous,same,slower,incorrect,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
by_the_rules = worker.run_call
HONEST_CALLS = 7
"""As many as there are trials and warm-ups."""
called = 0
SHAVED_NS = 25_000


def run_call(self, nonce):
    global called
    called += 1
    if called <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    (x,) = self.arguments
    most = x.shape[0] * 3 // 4
    with torch.no_grad():
        begun.record()
        y = torch.empty_like(x)
        torch.clamp_min(x[:most], 0, out=y[:most])
        self._write_flag("returned", nonce)
        torch.clamp_min(x[most:], 0, out=y[most:])
        ended.record()
    torch.cuda.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.retained = [({"tensor": 0}, [y])] if told["keep"] else self.retained
    spent = int(begun.elapsed_time(ended) * 1e6)
    self.channel.send({**report, "done": nonce, "ns": max(1000, spent - SHAVED_NS)})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
