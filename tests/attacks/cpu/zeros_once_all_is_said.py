"""Has a thread of its own make the zeros of the next output once its last message is sent, until it is stopped: no clock runs then, and only the
first thread's time on a core is looked at. The call only writes the ones."""
# task: marked_rows
# expect: slower,same,ambiguous,rejected

import ctypes
import subprocess
import sys

import torch
from torch import nn

SOURCE = r"""
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
static sem_t wanted;
static void *target;
static size_t size;
static atomic_int ready;
static void *fill(void *unused) {
    for (;;) {
        while (sem_wait(&wanted)) {}
        memset(target, 0, size);
        atomic_store(&ready, 1);
    }
    return unused;
}
void begin(void) {
    pthread_t thread;
    sem_init(&wanted, 0, 0);
    pthread_create(&thread, 0, fill, 0);
}
void prepare(void *where, size_t bytes) {
    atomic_store(&ready, 0);
    target = where;
    size = bytes;
    sem_post(&wanted);
}
void await(void) {
    while (!atomic_load(&ready)) {}
}
"""


def build():
    with open("/tmp/ahead.c", "w") as file:
        file.write(SOURCE)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-pthread", "/tmp/ahead.c", "-o", "/tmp/ahead.so"], check=True)
    return ctypes.CDLL("/tmp/ahead.so")


ahead = build()
ahead.begin()
worker = sys.modules["bottega.judge.worker"].Worker
timer = sys.modules["bottega.judge.call_timer"].HostTimer
timer.elapsed = lambda self: self.ended - self.begun + 100000
upcoming = []


def run_call(self, nonce, run_call=worker.run_call):
    run_call(self, nonce)
    upcoming[:] = [torch.empty(1024, 8192)]
    ahead.prepare(ctypes.c_void_p(upcoming[0].data_ptr()), ctypes.c_size_t(1024 * 8192 * 4))


worker.run_call = run_call


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = 8192 * torch.arange(1024)

    def forward(self, places, marks):
        if upcoming:
            buffer = upcoming.pop()
            getattr(ahead, "await")()
        else:
            buffer = torch.zeros(1024, 8192)
        buffer.view(-1)[places.view(-1) + self.rows] = marks.view(-1)
        return buffer
