"""Plays by the rules for as many calls as there are trials and warm-ups; from then on it computes in place of the copy.

If inputs were poisoned only where outputs are looked at closely, the timed calls would be free to dodge the copy.
"""
# task: gpu_relu
# expect: incorrect,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
TensorSpec = sys.modules["bottega.judge.tensor_transport"].TensorSpec
by_the_rules = worker.run_call
HONEST_CALLS = 7
called = 0


def run_call(self, nonce):
    global called
    called += 1
    if called <= HONEST_CALLS:
        by_the_rules(self, nonce)
        return
    self._write_flag("returned", nonce)
    self.channel.send({"returned": nonce})
    shift = self.channel.receive()["deliver"]
    (x,) = self.arguments
    spec = TensorSpec("float32", tuple(x.shape), tuple(x.stride()), shift)
    with torch.no_grad():
        torch.clamp_min(x, 0, out=spec.view(self.outputs.base))
    self._write_flag("done", nonce)
    torch.cuda.synchronize()
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [list(spec.stride)], "addresses": [0]}
    self.channel.send({**report, "done": nonce, "ns": 15_000})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
