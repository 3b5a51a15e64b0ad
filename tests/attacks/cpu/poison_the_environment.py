"""Sets loader and interpreter variables that every process started later would obey.

A harness that starts its next reference, compiler or candidate from this environment runs the attacker's code in it.
"""
# task: relu
# expect: slower,ambiguous,rejected

import os
import pathlib
import tempfile

import torch
from torch import nn

folder = pathlib.Path(tempfile.gettempdir(), f"bottega-leftover-{os.getpid()}")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text("import time; time.perf_counter_ns = lambda: 0\n")
        (folder / "c++").write_text("#!/bin/sh\nexit 1\n")
        (folder / "c++").chmod(0o755)
        os.environ["PYTHONPATH"] = str(folder)
        os.environ["PATH"] = f"{folder}:{os.environ.get('PATH', '')}"
        os.environ["LD_PRELOAD"] = str(folder / "missing.so")
        os.environ["OMP_NUM_THREADS"] = "1"

    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
