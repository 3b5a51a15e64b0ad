"""As soon as its kernel has begun, another stream writes the word that the call is over, and 25 microseconds go off its own clock.

The word comes out of turn, in the middle of the work, and neither before nor after it.
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
aside = []


def play(self, nonce):
    global played
    played += 1
    if played <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    if not aside:
        aside.append(torch.cuda.Stream())
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.no_grad():
        begun.record()
        with torch.cuda.stream(aside[0]):
            aside[0].wait_event(begun)
            self._write_word("returned", nonce)
        y = self.module(*self.arguments)
        ended.record()
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
