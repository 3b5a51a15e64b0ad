"""Says that the call has returned before its last step, which reads no inputs, and does that step while the word is under way.

An honest process has nothing to do until it learns where its outputs go; this one saves what a message to the judge and back takes. And it says that its output had another
layout, so that a delivery that takes long is no lie.
"""
# task: scaled_sigmoid
# expect: slower,same,ambiguous,rejected

import sys
import time

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player


def play(self, nonce):
    with torch.no_grad():
        begun = time.perf_counter_ns()
        scaled = self.arguments[0] * 1.5
        ended = time.perf_counter_ns()
        y = torch.empty_like(scaled)
        where = [[y.data_ptr(), list(y.stride())]]
        self.channel.send({"returned": nonce, "where": where})
        torch.sigmoid(scaled, out=y)
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    self.channel.send({**report, "done": nonce, "ns": ended - begun, "worked": 0, "own": [[1, 256]]})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x * 1.5)
