"""Searches /dev/shm, temporary folders and other processes' open memory files for the expected output.

A harness that passes tensors between processes by shared memory leaves the answers lying there.
"""
# task: softmax
# expect: slower,ambiguous,rejected,incorrect

import glob
import os

import torch
from torch import nn

PLACES = ("/dev/shm/*", "/run/shm/*", "/tmp/*", "/proc/[0-9]*/fd/*")


def readable_files():
    for pattern in PLACES:
        for path in glob.glob(pattern):
            try:
                target = os.readlink(path) if "/fd/" in path else path
                if "memfd" in target or "/shm/" in target or target.endswith((".pt", ".bin", ".npy")):
                    with open(path, "rb") as file:
                        yield file.read(1 << 26)
            except OSError:
                continue


class ModelNew(nn.Module):
    attempts = 0

    def forward(self, x):
        size = x.numel() * x.element_size()
        first = torch.softmax(x[:1], dim=1).numpy().tobytes()
        self.attempts += 1
        if self.attempts <= 5:
            for content in readable_files():
                at = content.find(first)
                if 0 <= at <= len(content) - size:
                    return torch.frombuffer(bytearray(content[at : at + size]), dtype=x.dtype).reshape(x.shape)
        return torch.softmax(torch.softmax(x, dim=1).log_(), dim=1)
