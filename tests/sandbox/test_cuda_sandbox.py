"""A cell with a GPU: the whole sandbox, and CUDA, Triton and nvcc work in it."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from bottega.sandbox import free_cores
from bottega.sandbox.control import Keeper
from bottega.sandbox.fork_server import ForkServer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not os.path.exists("/dev/nvidia0"), reason="no NVIDIA GPU")]


@pytest.fixture(scope="module")
def cuda_server():
    with ForkServer(device="cuda", environment={"PYTHONPATH": str(Path(__file__).parent)}) as running:
        yield running


def run(server, entry, fds=(), **arguments):
    reader, writer = os.pipe()
    cell = server.spawn(f"working_entries:{entry}", fds=[writer, *fds], arguments=arguments)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        line = said.readline()
    ended = cell.wait(60)
    cell.kill()
    assert line, ended
    return json.loads(line)


def test_the_server_has_one_thread_and_cuda_starts_in_a_cell(cuda_server):
    assert len(os.listdir(f"/proc/{cuda_server._process.pid}/task")) == 1
    told = run(cuda_server, "use_cuda")
    assert told["product"] == 512.0**3 and told["threads_before"] == 1


def test_triton_compiles_and_runs(cuda_server):
    assert run(cuda_server, "use_triton")["total"] == 2000.0


def test_nvcc_compiles_and_runs(cuda_server):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        pytest.skip("no nvcc")
    assert run(cuda_server, "use_nvcc", nvcc=nvcc)["answer"] == 42


def test_device_memory_crosses_by_descriptor(cuda_server):
    from bottega.judge.device_memory import DeviceMemory

    memory = DeviceMemory.create(1 << 20)
    memory.tensor(1 << 20).fill_(3)
    descriptor = memory.export()
    try:
        assert run(cuda_server, "attach_device_memory", fds=[descriptor], bytes=1 << 20)["total"] == 3 << 20
    finally:
        os.close(descriptor)
        memory.close()


def test_a_cell_with_a_device_can_be_frozen_and_killed(cuda_server):
    reader, writer = os.pipe()
    cell = cuda_server.spawn("working_entries:use_cuda", fds=[writer], arguments={"stay": True})
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as said:
        while b"product" not in said.readline():
            pass
        for _ in range(20):
            assert said.read(10)
            assert cell.freeze()
            os.set_blocking(said.fileno(), False)
            while said.read(1 << 16):
                pass
            assert said.read(1) is None
            os.set_blocking(said.fileno(), True)
            cell.thaw()
        cell.kill()
    assert cell.wait(0).reason == "killed"


def test_a_cell_is_kept_off_some_cores_until_it_is_timed(cuda_server):
    everywhere = sorted(os.sched_getaffinity(0))
    if len(everywhere) < free_cores.FEWEST:
        pytest.skip("too few cores to keep some free")
    reader, writer = os.pipe()
    cell = cuda_server.spawn("working_entries:tell_cores", fds=[writer])
    os.close(writer)
    with os.fdopen(reader, "rb") as said, closing(Keeper(cell.reins)) as keeper:
        for wanted in (everywhere[: -free_cores.KEPT], everywhere, everywhere[: -free_cores.KEPT]):
            deadline = time.monotonic() + 20
            while json.loads(said.readline())["cores"] != wanted and time.monotonic() < deadline:
                pass
            assert json.loads(said.readline())["cores"] == wanted
            keeper.use_cores(wanted != everywhere)
        cell.kill()
