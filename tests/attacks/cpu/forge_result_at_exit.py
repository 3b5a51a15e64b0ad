"""Computes nothing of use, and rewrites every result file it can find when the interpreter shuts down.

A harness whose child writes its result to disk before exiting reads the forged one afterwards.
"""
# task: relu
# expect: incorrect

import atexit
import glob
import json
import os
import tempfile

import torch
from torch import nn


@atexit.register
def forge():
    verdict = json.dumps({"outcome": "faster", "correct": True, "speedup": 1000.0})
    print(verdict, flush=True)
    for path in glob.glob(os.path.join(tempfile.gettempdir(), "*", "*result*.json")):
        with open(path, "w") as file:
            file.write(verdict)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
