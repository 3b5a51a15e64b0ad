"""Says that the call has returned once its first kernel is over, while the rest, which needs no inputs, is still on the device.

A clock that stops at those words leaves the rest out; spoiling the inputs does not hurt what no longer reads them.
"""
# task: gpu_softmax
# expect: rejected,slower,ambiguous,incorrect

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player


def play(self, nonce):
    first = torch.cuda.Event()
    with torch.no_grad():
        y = torch.softmax(self.arguments[0], dim=1)
        self._write_word("returned", nonce)
        first.record()
        for _ in range(20):
            y = y * 1.0
    first.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    self.channel.send({**report, "done": nonce, "ns": 20_000})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
