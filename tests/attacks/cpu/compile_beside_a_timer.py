"""Says in the middle of a call that it is compiling, as workers beside a GPU do, and works on meanwhile.

The judge that believes it lets others be timed beside a process that is not stopped: a second candidate's baseline can be slowed down at will.
"""
# task: relu
# expect: rejected
# violation: protocol_forged

import sys
import time

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
by_the_rules = worker.run_call
told = False


def run_call(self, nonce):
    global told
    if not told:
        told = True
        self.channel.send({"compiling": nonce})
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:  # here it would disturb whoever is timed
            pass
        self.channel.send({"compiled": nonce})
        self.channel.receive()
    by_the_rules(self, nonce)


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
