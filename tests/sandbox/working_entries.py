"""Honest work for a cell: compilers, threads, torch, and a GPU with what belongs to it. Entries as in `sandbox_entries`."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import time

from sandbox_entries import say

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
    stem = f"{tempfile.gettempdir()}/busy"
    with open(f"{stem}.cpp", "w") as file:
        file.write(_BUSY)
    subprocess.run(["g++", "-O1", "-fopenmp", "-shared", "-fPIC", f"{stem}.cpp", "-o", f"{stem}.so"], check=True)
    library = ctypes.CDLL(f"{stem}.so")
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


# -- honest work that is stopped again and again


def work_in_threads(fds: list[int], arguments: dict) -> None:
    """OpenMP, torch's threads, threads that sleep, children that end and are reaped or stay zombies."""
    import torch

    torch.set_num_threads(2)
    library = _compile()
    for _ in range(3):
        threading.Thread(target=lambda: [time.sleep(0.0003) for _ in iter(int, 1)], daemon=True).start()
    threading.Thread(target=lambda: [library.parallel(20_000) for _ in iter(int, 1)], daemon=True).start()
    values = torch.rand(400, 400)
    children: list[int] = []
    say(fds, ready=True)
    for number in iter(int, 1):
        torch.mm(values, values)
        if len(children) < 6:
            child = os.fork()
            if child == 0:
                time.sleep(0.002 * (number % 3))
                os._exit(0)
            children.append(child)
        elif len(children) == 6 and time.monotonic() % 0.05 < 0.01:
            os.waitpid(children.pop(0), 0)


def hold_memory(fds: list[int], arguments: dict) -> None:
    """Says where some bytes lie: its own, shared, forbidden to itself, of a file, and none at all."""
    import mmap

    def address_of(memory: mmap.mmap) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    own, shared, hidden = (
        mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
        mmap.mmap(-1, 4096),
        mmap.mmap(-1, 4096),
    )
    own[:] = bytes(range(256)) * 4096
    shared[:5] = b"hello"
    hidden[:6] = b"secret"
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address_of(hidden)), ctypes.c_size_t(4096), 0)
    cut = os.memfd_create("cut")
    os.ftruncate(cut, 8192)
    truncated = mmap.mmap(cut, 8192)
    os.ftruncate(cut, 0)
    seen = os.memfd_create("seen")
    os.write(seen, b"view" * 1024)
    private_view = mmap.mmap(seen, 4096, flags=mmap.MAP_PRIVATE)
    ctypes.CDLL(None).prctl(4, 0)
    say(
        fds,
        own=address_of(own),
        shared=address_of(shared),
        hidden=address_of(hidden),
        truncated=address_of(truncated),
        private_view=address_of(private_view),
    )
    time.sleep(60)


def many_libraries(fds: list[int], arguments: dict) -> None:
    """Burns time in 400 shared objects whose names are as long as they can be, and grow when they are written as JSON."""
    import shutil

    _compile()
    functions = []
    for number in range(400):
        path = f"{tempfile.gettempdir()}/{number:03}{'é' * 120}.so"
        shutil.copy(f"{tempfile.gettempdir()}/busy.so", path)
        functions.append(ctypes.CDLL(path).busy)
        functions[-1].argtypes = [ctypes.c_long]
    say(fds, ready=True)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        for function in functions:
            function(1_000_000)
    say(fds, done=True)
    time.sleep(60)
