"""Facts of devices: read from files of other machines, and never an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bottega.core.device import DeviceFacts
from bottega.judge import device_facts as device_facts_module
from bottega.judge.device_facts import cpu_facts, cuda_facts, device_facts, driver_says

XEON = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx2 fma avx512f\n\nprocessor\t: 1\nmodel name\t: Other\nflags\t\t: fpu\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU part\t: 0xd40\n\nModel\t\t: Some Board\n"
CACHES = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "300M")]
H200 = {
    "name": "NVIDIA H200", "memory": 150_110_011_392, "cores": 132, "memory_khz": 3_201_000, "bus_bits": 6144,
    "cache": 62_914_560, "major": 9, "minor": 0, "registers": 65536, "shared": 232_448,
}  # fmt: skip


def machine(root: Path, cpuinfo: str, caches: list[tuple[str, str, str]], memory: str = "MemTotal:  16777216 kB\n") -> Path:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(cpuinfo)
    (root / "proc/meminfo").write_text(memory)
    for number, (level, kind, size) in enumerate(caches):
        place = root / f"sys/devices/system/cpu/cpu0/cache/index{number}"
        place.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (place / name).write_text(text + "\n")
    return root


def test_a_xeon(tmp_path: Path) -> None:
    found = cpu_facts(machine(tmp_path, XEON, CACHES))
    assert (found.kind, found.name, found.memory_gib) == ("cpu", "Xeon", 16.0)
    assert found.arch.endswith(" avx2 fma avx512f")
    assert (found.cache_mib, found.shared_kib, found.bandwidth_gbs, found.registers) == (300.0, 2048.0, None, None)
    assert found.cores == len(os.sched_getaffinity(0))


def test_an_arm_board_without_caches(tmp_path: Path) -> None:
    found = cpu_facts(machine(tmp_path, ARM, []))
    assert found.name == "Some Board" and found.arch.endswith(" asimd sve bf16")
    assert (found.cache_mib, found.shared_kib) == (None, None)


def test_a_container_may_use_less_memory(tmp_path: Path) -> None:
    root = machine(tmp_path, XEON, CACHES[:1])
    (root / "sys/fs/cgroup").mkdir(parents=True)
    for limit, gib in (("max", 16.0), (str(4 << 30), 4.0), (str(64 << 30), 16.0), ("odd", 16.0)):
        (root / "sys/fs/cgroup/memory.max").write_text(limit + "\n")
        assert cpu_facts(root).memory_gib == gib
    assert cpu_facts(root).cache_mib == round(48 / 1024, 2)


@pytest.mark.parametrize("text", ["", "\x00\xff", ":::\n:", "model name\nflags:", "flags : " + "x " * 100_000])
def test_strange_files_are_no_error(tmp_path: Path, text: str) -> None:
    found = cpu_facts(machine(tmp_path, text, [("x", "y", "z"), ("3", "Unified", "K"), ("", "", "")], text))
    assert found.kind == "cpu" and found.name and found.memory_gib == 0.0 and found.cache_mib is None


def test_a_gpu() -> None:
    assert cuda_facts(dict(H200)) == DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 139.8, 4917.0, 60.0, 227.0, 65536)


@pytest.mark.parametrize(
    "told", [{}, {"name": "GPU"}, {"memory_khz": 0, "bus_bits": 384}, {"cores": None, "memory": -1, "cache": "x"}]
)
def test_what_a_driver_does_not_say_stays_unknown(told: dict[str, Any]) -> None:
    found = cuda_facts(told)
    assert found.kind == "cuda" and found.bandwidth_gbs is None and found.cache_mib is None and found.arch == ""


def test_nvidia_smi_stands_in() -> None:
    told = device_facts_module._from_smi("NVIDIA A10, 23028, 8.6\n")
    assert cuda_facts(told) == DeviceFacts("cuda", "NVIDIA A10", "sm_86", 0, 22.5)
    assert device_facts_module._from_smi("NVIDIA-SMI has failed because\n") == {} == device_facts_module._from_smi("")
    assert device_facts_module._from_smi("Odd, 1000, [N/A]") == {"name": "Odd", "memory": 1000 * 2**20}


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:7", "cuda:x", "mps", "", "cpu:0"])
def test_no_device_raises(device: str) -> None:
    found = device_facts(device)
    assert isinstance(found, DeviceFacts) and found.kind == device.partition(":")[0]


def test_this_machine() -> None:
    found = device_facts("cpu")
    assert found.cores >= 1 and found.memory_gib > 0.1 and found.name and found.arch
    assert device_facts("cpu") is found


def test_no_torch_and_no_cuda_in_this_process() -> None:
    calls = "device_facts('cpu'); device_facts('cuda')"
    code = f"import sys; from bottega.judge.device_facts import device_facts; {calls}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gpu
def test_this_gpu() -> None:
    import torch

    found, properties = device_facts("cuda"), torch.cuda.get_device_properties(0)
    assert (found.name, found.cores) == (properties.name, properties.multi_processor_count)
    assert found.arch == f"sm_{properties.major}{properties.minor}" and found.bandwidth_gbs and found.bandwidth_gbs > 50
    assert found.shared_kib and found.shared_kib >= 48 and driver_says(10_000) == {}
