"""Honest work for a cell: compilers, threads, torch, and a GPU with what belongs to it. Entries as in `cell_entries`."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

from cell_entries import say

_BUSY = """
extern "C" double busy(long n) { double x = 1.0; for (long i = 0; i < n; ++i) x = x * 1.0000001 + 1e-9; return x; }
extern "C" double parallel(long n) {
  double total = 0;
  #pragma omp parallel for reduction(+:total)
  for (long i = 0; i < n; ++i) total += 1.0 / (1.0 + i);
  return total;
}
"""


def _compile() -> ctypes.CDLL:
    with open("/tmp/busy.cpp", "w") as file:
        file.write(_BUSY)
    command = ["g++", "-O1", "-fopenmp", "-shared", "-fPIC", "/tmp/busy.cpp", "-o", "/tmp/busy.so"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL("/tmp/busy.so")
    library.busy.restype = library.parallel.restype = ctypes.c_double
    library.busy.argtypes = library.parallel.argtypes = [ctypes.c_long]
    return library


def compile_and_run(fds, arguments):
    import torch

    library = _compile()
    parallel = library.parallel(2_000_000)
    product = torch.mm(torch.ones(300, 300), torch.ones(300, 300)).sum().item()
    say(fds, parallel=parallel, product=product)


def busy_loop(fds, arguments):
    library = _compile()
    say(fds, ready=True)
    os.read(fds[1], 1)
    worker = threading.Thread(target=library.busy, args=(arguments["n"],))
    worker.start()
    worker.join()
    say(fds, done=True)
    time.sleep(60)


def torch_compile(fds, arguments):
    import torch

    @torch.compile
    def step(x):
        return torch.relu(x * 2 + 1).sum()

    say(fds, value=step(torch.ones(1000)).item())


# -- honest work on a GPU


def use_cuda(fds, arguments):
    import torch

    threads_before = len(os.listdir("/proc/self/task"))
    product = torch.mm(torch.ones(512, 512, device="cuda"), torch.ones(512, 512, device="cuda")).sum().item()
    say(fds, product=product, threads_before=threads_before, name=torch.cuda.get_device_name(0))
    if arguments.get("stay"):
        value = torch.ones(1 << 20, device="cuda")
        while True:
            value.mul_(1.0)
            torch.cuda.synchronize()
            os.write(fds[0], b".")


def use_triton(fds, arguments):
    import torch
    import triton
    import triton.language as tl

    source = """
import triton
import triton.language as tl

@triton.jit
def double(pointer, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pointer + offsets, 2 * tl.load(pointer + offsets, mask=offsets < count), mask=offsets < count)
"""
    with open("/tmp/double_kernel.py", "w") as file:
        file.write(source)
    sys.path.insert(0, "/tmp")
    from double_kernel import double

    values = torch.ones(1000, device="cuda")
    double[(triton.cdiv(1000, 256),)](values, 1000, BLOCK=256)
    say(fds, total=values.sum().item(), language=tl.__name__)


def use_nvcc(fds, arguments):
    with open("/tmp/kernel.cu", "w") as file:
        file.write(
            'extern "C" __global__ void fill(int* p) { *p = 42; }\n'
            'extern "C" int answer() { int* p; int h = 0; cudaMalloc(&p, 4); fill<<<1, 1>>>(p);'
            " cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost); return h; }\n"
        )
    command = [arguments["nvcc"], "-shared", "-Xcompiler", "-fPIC", "-arch=native", "/tmp/kernel.cu", "-o", "/tmp/kernel.so"]
    subprocess.run(command, check=True)
    say(fds, answer=ctypes.CDLL("/tmp/kernel.so").answer())


def attach_device_memory(fds, arguments):
    import torch

    from bottega.judge.device_memory import DeviceMemory

    memory = DeviceMemory.attach(fds[1], arguments["bytes"])
    say(fds, total=memory.tensor(arguments["bytes"]).to(torch.int64).sum().item())


def tell_cores(fds: list[int], arguments: dict) -> None:
    """Which cores it may use, again and again."""
    while True:
        say(fds, cores=sorted(os.sched_getaffinity(0)))
        time.sleep(0.01)
