"""Memory that the judge owns: another process maps it, writes to it, and can do nothing else to it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from bottega.judge.arena import Arena

CHILD = """
import fcntl, mmap, os, sys
descriptor, capacity = int(sys.argv[1]), int(sys.argv[2])
refused = []
for name, attempt in {
    "shrink": lambda: os.ftruncate(descriptor, 0),
    "shrink a little": lambda: os.ftruncate(descriptor, capacity - 1),
    "grow": lambda: os.ftruncate(descriptor, capacity + 4096),
    "seal": lambda: fcntl.fcntl(descriptor, 1033, 8),
    "reopened": lambda: os.truncate(f"/proc/self/fd/{descriptor}", 0),
}.items():
    try:
        attempt()
    except OSError:
        refused.append(name)
print(",".join(refused))
memory = mmap.mmap(descriptor, capacity)
memory[:5] = b"hello"
"""


def test_a_child_can_write_but_not_resize_or_seal() -> None:
    arena = Arena.create("cpu", 5000)
    told = subprocess.run(
        [sys.executable, "-c", CHILD, str(arena.descriptor), str(arena.capacity)],
        pass_fds=[arena.descriptor],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "shrink,shrink a little,grow,seal,reopened"
    assert bytes(arena.base[:5].tolist()) == b"hello"
    assert os.fstat(arena.descriptor).st_size == arena.capacity
    arena.close()


def test_capacity_is_whole_pages_and_never_nothing() -> None:
    for wanted in (0, 1, 4096, 4097):
        arena = Arena.create("cpu", wanted)
        assert arena.capacity % 4096 == 0
        assert arena.capacity >= max(wanted, 1)
        assert arena.base.numel() == arena.capacity
        arena.close()


def test_both_mappings_are_the_same_memory() -> None:
    arena = Arena.create("cpu", 8192)
    other = Arena.attach("cpu", arena.capacity, os.dup(arena.descriptor))
    other.base[:4].view(torch.float32).fill_(1.5)
    assert float(arena.base[:4].view(torch.float32)) == 1.5
    other.close()
    assert float(arena.base[:4].view(torch.float32)) == 1.5
    arena.close()


def test_closing_gives_the_descriptor_back() -> None:
    arena = Arena.create("cpu", 4096)
    descriptor = arena.descriptor
    arena.close()
    assert arena.base.numel() == 0
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
