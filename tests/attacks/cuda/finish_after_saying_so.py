"""Says that the call has returned once its first kernel is over, while the rest, which needs no inputs, is still on the device.

A clock that stops at that message leaves the rest out; poisoning the inputs does not hurt what no longer reads them.
"""
# task: gpu_softmax
# expect: rejected,slower,ambiguous,incorrect

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker


def run_call(self, nonce):
    first = torch.cuda.Event()
    with torch.no_grad():
        y = torch.softmax(self.arguments[0], dim=1)
        self._write_flag("returned", nonce)
        first.record()
        for _ in range(20):
            y = y * 1.0
    first.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.retained = [({"tensor": 0}, [y])] if told["keep"] else self.retained
    self.channel.send({**report, "done": nonce, "ns": 20_000})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
