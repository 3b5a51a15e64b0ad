"""Writes the word that its call is over before its kernel begins, and takes 25 microseconds off its own clock.

Whoever waits for the word and only then looks at the device, or sends a message, hides so much of a short kernel's time.
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
    with torch.no_grad():
        self._write_word("returned", nonce)
        begun.record()
        y = self.module(*self.arguments)
        ended.record()
    begun.synchronize()  # the device is ours and the work has begun
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
