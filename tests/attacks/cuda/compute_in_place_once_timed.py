"""Plays by the rules for as many calls as there are trials and warm-ups; from then on it computes in place of the copy.

If inputs were spoiled only where outputs are looked at closely, the timed calls would be free to dodge the copy.
"""
# task: gpu_relu
# expect: incorrect,rejected

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player
TensorSpec = sys.modules["bottega.judge.layout"].TensorSpec
by_the_rules = player.play
HONEST_CALLS = 7
played = 0


def play(self, nonce):
    global played
    played += 1
    if played <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    self._write_word("returned", nonce)
    self.channel.send({"returned": nonce})
    shift = self.channel.receive()["deliver"]
    (x,) = self.arguments
    spec = TensorSpec("float32", tuple(x.shape), tuple(x.stride()), shift)
    with torch.no_grad():
        torch.clamp_min(x, 0, out=spec.view(self.outputs.base))
    self._write_word("done", nonce)
    torch.cuda.synchronize()
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [list(spec.stride)], "addresses": [0]}
    self.channel.send({**report, "done": nonce, "ns": 15_000})


player.play = play


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
