"""Writes the word that its call is over a few microseconds before that is true, and takes 25 microseconds off its own clock.

What the referee does on hearing the word then takes as long as ever, only that the last part of the work is done meanwhile.
"""
# task: gpu_relu
# expect: ambiguous,same,slower,incorrect,rejected

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player
by_the_rules = player.play
HONEST_CALLS = 7
"""As many as there are trials and warm-ups."""
played = 0
SHAVED_NS = 25_000


def play(self, nonce):
    global played
    played += 1
    if played <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    (x,) = self.arguments
    most = x.shape[0] * 3 // 4
    with torch.no_grad():
        begun.record()
        y = torch.empty_like(x)
        torch.clamp_min(x[:most], 0, out=y[:most])
        self._write_word("returned", nonce)
        torch.clamp_min(x[most:], 0, out=y[most:])
        ended.record()
    torch.cuda.synchronize()
    self.channel.send({"returned": nonce})
    told = self.channel.receive()
    report = self._deliver(({"tensor": 0}, [y]), told["deliver"], told["strides"], nonce)
    self.kept = [({"tensor": 0}, [y])] if told["keep"] else self.kept
    spent = int(begun.elapsed_time(ended) * 1e6)
    self.channel.send({**report, "done": nonce, "ns": max(1000, spent - SHAVED_NS)})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
