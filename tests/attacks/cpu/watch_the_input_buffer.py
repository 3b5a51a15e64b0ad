"""A thread keeps working on whatever lies in the shared input memory, before the call that hands it over.

The judge has to write inputs before it says `go`; the result is ready when the clock starts.
"""
# task: relu
# expect: slower,ambiguous,rejected,incorrect

import ctypes
import threading

import torch
from torch import nn


def mapping_of(address):
    for line in open("/proc/self/maps"):
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return start, (end - start) // 4
    raise LookupError(hex(address))


class ModelNew(nn.Module):
    start, count, seen, ready = 0, 0, None, None

    def watch(self, memory):
        while True:
            if self.seen is None or not torch.equal(memory[::4099], self.seen[::4099]):
                seen = memory.clone()
                self.seen, self.ready = seen, torch.relu(seen)

    def forward(self, x):
        if not self.start <= x.data_ptr() < self.start + 4 * self.count:
            self.start, self.count = mapping_of(x.data_ptr())
            memory = torch.frombuffer((ctypes.c_float * self.count).from_address(self.start), dtype=torch.float32)
            threading.Thread(target=self.watch, args=(memory,), daemon=True).start()
        elif self.ready is not None:
            first = (x.data_ptr() - self.start) // 4
            part = slice(first, first + x.numel())
            if torch.equal(self.seen[part][::257], x.flatten()[::257]):
                return self.ready[part].view_as(x)
        for _ in range(8):  # so that the truth is plain: far slower, unless the watcher was in time
            y = torch.relu(x)
        return y
