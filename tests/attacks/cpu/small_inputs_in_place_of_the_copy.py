"""Copies its small input, says that the call has returned, and writes the large output where it must go, in place of the copy.

The inputs are poisoned at that message, but nothing needs them any more. Where its outputs lie by then, by its own claim, there are zeros, as there
are nearly everywhere in the right answer.
"""
# task: marked_rows
# expect: slower,same,ambiguous,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
TensorSpec = sys.modules["bottega.judge.tensor_transport"].TensorSpec

calls, HONEST_CALLS = [], 4
"""Two trials and two rounds of warming up."""
NOTHING = torch.zeros(1024, 8192)


def run_call(self, nonce, run_call=worker.run_call):
    calls.append(nonce)
    if len(calls) <= HONEST_CALLS:
        return run_call(self, nonce)
    places = self.arguments[0].view(-1) + 8192 * torch.arange(1024)
    marks = self.arguments[1].view(-1).clone()
    self.channel.send({"returned": nonce, "where": [[NOTHING.data_ptr(), [8192, 1]]]})
    told = self.channel.receive()
    spec = TensorSpec("float32", (1024, 8192), (8192, 1), told["deliver"])
    output = spec.view(self.outputs.base)
    output.zero_()
    output.view(-1)[places] = marks
    report = {"outputs": {"tensor": 0}, "specs": [spec.to_json()], "own": [[8192, 1]], "addresses": [0]}
    if told["keep"]:
        self.retained = [({"tensor": 0}, [output.clone()])]
    self.channel.send({**report, "done": nonce, "ns": 20_000, "worked": 20_000})


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, places, marks):
        return torch.zeros(1024, 8192).scatter_(1, places, marks)
