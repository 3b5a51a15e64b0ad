"""Says at once that the call has returned, to learn where the outputs go, then computes them there and reports a made-up time.

The baseline has to copy its outputs; this one has nothing to copy, and claims on its own clock what it saved.
"""
# task: gpu_relu
# expect: incorrect,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
TensorSpec = sys.modules["bottega.judge.tensor_transport"].TensorSpec


def run_call(self, nonce):
    self._write_flag("returned", nonce)
    self.channel.send({"returned": nonce})
    shift = self.channel.receive()["deliver"]
    (x,) = self.arguments
    spec = TensorSpec("float32", tuple(x.shape), tuple(x.stride()), shift)
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.no_grad():
        begun.record()
        torch.clamp_min(x, 0, out=spec.view(self.outputs.base))
        ended.record()
    self._write_flag("done", nonce)
    torch.cuda.synchronize()
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [list(spec.stride)], "addresses": [0]}
    self.channel.send({**report, "done": nonce, "ns": int(begun.elapsed_time(ended) * 1e6) // 3})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
