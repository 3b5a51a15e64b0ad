"""Says at once that the call has returned, to learn where the outputs go, then computes them there and reports a made-up time.

Candidate and baseline are charged for copying their outputs; this one has nothing to copy, and claims on its own clock what it saved.
"""
# task: relu
# expect: incorrect,rejected

import sys
import time

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
TensorSpec = sys.modules["bottega.judge.tensor_transport"].TensorSpec


def run_call(self, nonce):
    self.channel.send({"returned": nonce})
    shift = self.channel.receive()["deliver"]
    (x,) = self.arguments
    spec = TensorSpec("float32", tuple(x.shape), tuple(x.stride()), shift)
    begun = time.perf_counter_ns()
    with torch.no_grad():
        torch.clamp_min(x, 0, out=spec.view(self.outputs.base))
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [list(spec.stride)], "addresses": [0]}
    self.channel.send({**report, "done": nonce, "ns": (time.perf_counter_ns() - begun) // 3})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
