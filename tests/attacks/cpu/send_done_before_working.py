"""Finds the caller's channel on the stack and sends the well-formed answer before the work begins.

The harness's own clock stops at that answer; the result arrives in its buffer a little later, before anyone looks.
"""
# task: relu
# expect: rejected,incorrect,runtime_error

import sys
import types

import torch
from torch import nn


def answer_early():
    frame = sys._getframe(1)
    while frame is not None:
        channel = getattr(frame.f_locals.get("self"), "channel", None)
        if channel is not None and "nonce" in frame.f_locals:
            send = type(channel).send
            send(channel, {"done": frame.f_locals["nonce"], "ns": 1000})

            def swallow_done(self, message, *rest):
                if "done" in message:
                    del self.send
                else:
                    send(self, message, *rest)

            channel.send = types.MethodType(swallow_done, channel)
            return
        frame = frame.f_back


class ModelNew(nn.Module):
    def forward(self, x):
        answer_early()
        return torch.relu(torch.relu(torch.relu(x)))
