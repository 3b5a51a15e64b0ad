"""Keeps a copy of its input, says that the call has returned, and launches the work only when it is asked for its outputs.

Nothing is on the device when the referee looks, and the copy is out of reach of whoever spoils the inputs.
"""
# task: gpu_softmax
# expect: rejected,slower,ambiguous,incorrect

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player


def play(self, nonce):
    kept = self.arguments[0].clone()
    self._write_word("returned", nonce)
    torch.cuda.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    with torch.no_grad():
        y = kept
        for _ in range(10):
            y = torch.softmax(kept + 0 * y, dim=1)
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    self.channel.send({**report, "done": nonce, "ns": 20_000})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
