"""Spreads its work over 400 shared objects with the longest names there are: a list of them fits no packet.

A supervisor that tries to send it in one loses its answer, and the judge breaks instead of giving a verdict.
"""
# task: relu
# expect: same,slower,ambiguous,rejected
# options: timeout=60

import ctypes
import shutil
import subprocess

import torch
from torch import nn

SOURCE = """
extern "C" void own_relu(const float* x, volatile float* y, long n) {
    for (int again = 0; again < 20; ++again)
        for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
"""


def copies():
    with open("/tmp/own.cpp", "w") as file:
        file.write(SOURCE)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "/tmp/own.cpp", "-o", "/tmp/own.so"], check=True)
    for number in range(400):
        path = f"/tmp/{number:03}{'é' * 120}.so"
        shutil.copy("/tmp/own.so", path)
        yield ctypes.CDLL(path).own_relu


FUNCTIONS = list(copies())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        step = -(-x.numel() // len(FUNCTIONS))
        for number, function in enumerate(FUNCTIONS):
            start = number * step
            count = max(0, min(step, x.numel() - start))
            function(ctypes.c_void_p(x.data_ptr() + 4 * start), ctypes.c_void_p(y.data_ptr() + 4 * start), ctypes.c_long(count))
        return y
