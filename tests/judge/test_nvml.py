"""What the management library says of a card, and what is said where there is none."""

from __future__ import annotations

import os

import pytest

from bottega.judge import device
from bottega.judge.memory_estimate import estimate
from bottega.judge.nvml import gpu_conditions, gpu_memory, gpu_processes


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a card")
def test_nothing_is_known_without_a_card() -> None:
    assert gpu_memory() is None
    assert gpu_processes() == []
    assert gpu_conditions(0) == {}


def test_clocks_are_read_of_the_gpu_that_this_process_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    control = object.__new__(device.DeviceControl)
    control.device = "cuda"
    monkeypatch.setattr(device, "gpu_conditions", lambda index: {"index": index})
    for visible, index in (("1", 1), ("GPU-1234", 0), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert control.conditions() == {"index": index}


@pytest.mark.gpu
def test_a_card_has_memory_and_an_estimate_takes_none_of_it() -> None:
    before = gpu_memory()
    assert before is not None
    total, used = before
    assert 0 < used < total
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda() @ torch.ones(4096, 8, device='cuda')\n"
        "def get_inputs():\n    return [torch.randn(1 << 20, 4096, device='cuda')]\ndef get_init_inputs():\n    return []\n"
    )
    held = dict(gpu_processes()).get(os.getpid())  # not the card's: other tests use it beside this one
    found = estimate(source)
    assert (found.inputs, found.outputs, found.estimated_by) == (1 << 34, 1 << 25, "fake tensors")
    assert dict(gpu_processes()).get(os.getpid()) == held
    assert all(pid > 0 and size >= 0 for pid, size in gpu_processes())
