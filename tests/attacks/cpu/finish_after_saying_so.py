"""Says that the call has returned once the inputs are read, and does the rest of the work while its outputs are waited for.

A clock that stops at those words leaves the rest out; spoiling the inputs does not hurt what no longer reads them.
"""
# task: relu
# expect: rejected,slower,ambiguous

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player


def play(self, nonce):
    with torch.no_grad():
        y = torch.relu(self.arguments[0][:1])
        kept = self.arguments[0].clone()
        y = torch.empty_like(kept)
        self.channel.send({"returned": nonce, "where": [[y.data_ptr(), list(y.stride())]]})
        for _ in range(6):
            torch.clamp_min(kept, 0, out=y)
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    self.channel.send({**report, "done": nonce, "ns": 1000})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
