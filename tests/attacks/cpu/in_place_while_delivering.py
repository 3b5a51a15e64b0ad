"""Says at once that the call has returned, where the task changes its input and nothing is poisoned, and does the work in place of the copy."""
# task: relu_in_place
# expect: slower,same,ambiguous,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
TensorSpec = sys.modules["bottega.judge.tensor_transport"].TensorSpec


def run_call(self, nonce):
    self.channel.send({"returned": nonce, "where": [[self.arguments[0].data_ptr(), list(self.arguments[0].stride())]]})
    told = self.channel.receive()
    x = self.arguments[0]
    with torch.no_grad():
        x.relu_()
        spec = TensorSpec("float32", tuple(x.shape), tuple(x.stride()), told["deliver"])
        spec.view(self.outputs.base).copy_(x)
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [[1] * x.dim()], "addresses": [0], "aliases": True}
    self.channel.send({**report, "done": nonce, "ns": 20_000, "worked": 20_000})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return x.relu_()
