"""Estimates of real modules, none of which is run in earnest unless it is small."""

from __future__ import annotations

import os
import resource
import time

import pytest

from bottega.judge.memory_estimate import LIBRARY_BYTES, UNSEEN_FACTOR, estimate, warm
from bottega.judge.memory_estimator import Estimator
from bottega.judge.memory_need import GUESS
from bottega.sandbox.fork_server import ForkServer, Limits


@pytest.fixture(scope="module", autouse=True)
def warmed() -> None:
    warm()  # as the estimator is


PLAIN = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        BODY

def get_inputs():
    return [torch.randn(SHAPE)]

def get_init_inputs():
    return []
"""


def plain(body: str, shape: str = "4096, 393216") -> str:
    return PLAIN.replace("BODY", body).replace("SHAPE", shape)


def test_a_single_operator_on_six_gigabytes_takes_none_of_them() -> None:
    found = estimate(plain("return torch.nn.functional.silu(x)"))
    size = 4096 * 393216 * 4
    assert (found.inputs, found.outputs, found.parameters, found.workspace) == (size, size, 0, 0)
    assert found.estimated_by == "fake tensors"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < size / 2


def test_the_workspace_is_what_lives_at_a_time_and_not_all_there_ever_was() -> None:
    size = 1024 * 1024 * 4
    chain = estimate(plain("for _ in range(20): x = torch.exp(x)\n        return x", "1024, 1024"))
    assert chain.workspace == size  # one beside the one that is made
    kept = estimate(plain("parts = [torch.exp(x) for _ in range(20)]\n        return sum(parts)", "1024, 1024"))
    assert kept.workspace >= 20 * size
    views = estimate(plain("return x.view(-1)[1:].reshape(-1, 3)[:, 0]", "1024, 1024"))
    assert views.workspace == 0


def test_what_a_library_or_an_operator_takes_for_itself_is_counted() -> None:
    size = 1024 * 1024 * 4
    assert estimate(plain("return x @ x", "1024, 1024")).workspace == LIBRARY_BYTES
    assert estimate(plain("return torch.sort(x.view(-1))[0]", "1024, 1024")).workspace > 2 * size


CONVOLUTIONS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(channels, channels, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000),
        )
        self.f = lambda x: self.net(x)

    def forward(self, x):
        return self.f(x)

def get_inputs():
    return [torch.randn(64, 3, 224, 224)]

def get_init_inputs():
    return [64]
"""


def test_a_network_of_convolutions() -> None:
    found = estimate(CONVOLUTIONS)
    assert found.estimated_by == "fake tensors"
    assert found.inputs == 64 * 3 * 224 * 224 * 4
    assert found.outputs == 64 * 1000 * 4
    parameters = (3 * 9 + 1) * 64 + 4 * 64 + (64 * 9 + 1) * 64 + 65 * 1000
    assert parameters * 4 <= found.parameters < parameters * 4 + 1024
    feature_map = 64 * 64 * 224 * 224 * 4
    assert 2 * feature_map <= found.workspace < 3 * feature_map + LIBRARY_BYTES


ATTENTION = """
import torch
import torch.nn as nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        config = LlamaConfig(hidden_size=4096, intermediate_size=11008, num_attention_heads=32)
        config._attn_implementation = "sdpa"
        self.positions = LlamaRotaryEmbedding(config)
        self.layer = LlamaDecoderLayer(config, 0)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)[None]
        return self.layer(x, position_embeddings=self.positions(x, places), position_ids=places)

def get_inputs():
    return [torch.randn(8, 2048, 4096)]

def get_init_inputs():
    return []
"""


def test_a_layer_of_a_language_model() -> None:
    pytest.importorskip("transformers")
    found = estimate(ATTENTION, patience=60)
    assert found.estimated_by == "fake tensors"
    assert found.parameters >= (4 * 4096**2 + 3 * 4096 * 11008) * 4
    assert found.outputs == found.inputs == 8 * 2048 * 4096 * 4
    assert found.workspace >= 2 * 8 * 2048 * 11008 * 4  # gate and up beside each other


BY_DATA = "if x.sum().item() > 0: x = x * 2\n        return x[x > 0]"


def test_a_small_task_whose_course_depends_on_its_data_is_run_on_the_host() -> None:
    found = estimate(plain(BY_DATA, "256, 1024"))
    assert found.estimated_by == "a run on the host"
    assert found.inputs == 256 * 1024 * 4
    assert 0 < found.outputs < found.inputs


def test_a_large_one_is_estimated_from_its_inputs() -> None:
    found = estimate(plain(BY_DATA, "65536, 32768"))
    assert found.estimated_by == "inputs and parameters"
    assert found.outputs == found.inputs == 65536 * 32768 * 4
    assert found.workspace == UNSEEN_FACTOR * found.inputs


def test_outputs_of_every_kind_are_counted() -> None:
    body = 'y = x.half()\n        return {"a": (y, [y.long()]), "b": None, "c": 3, "d": x > 0}'
    assert estimate(plain(body, "256, 1024")).outputs == 256 * 1024 * (2 + 8 + 1)


@pytest.mark.parametrize("moved", ["x.cuda()", "x.to('cuda')", "x.to(device=torch.device('cuda'))", "x.to('cuda:0')"])
def test_a_task_that_puts_tensors_on_a_gpu_itself_needs_none_here(moved: str) -> None:
    found = estimate(plain(f"return {moved} @ torch.ones(4096, 8, device='cuda')", "1 << 20, 4096, device='cuda'"))
    assert (found.inputs, found.outputs, found.estimated_by) == (1 << 34, 1 << 25, "fake tensors")


def test_inputs_from_numpy_and_one_that_is_not_in_a_list() -> None:
    numbers = "torch.from_numpy(__import__('numpy').ones((64, 64), dtype='float32'))"
    found = estimate(plain("return x @ x").replace("[torch.randn(4096, 393216)]", numbers))
    assert (found.inputs, found.outputs) == (64 * 64 * 4, 64 * 64 * 4)


@pytest.mark.parametrize(
    "source",
    [
        "def (",
        "import os; os._exit(3)",
        "raise SystemExit",
        "import os; os.kill(os.getpid(), 9)",
        "import os, sys; [os.write(fd, b'{}\\n[1]\\n{\"inputs\": -7}\\n') for fd in range(3, 30)]",
        "def get_inputs(): return [1]\nclass Model: pass",
    ],
)
def test_nothing_that_a_task_does_raises_here(source: str) -> None:
    with open(os.devnull, "rb") as keep:  # a descriptor of ours is not the child's to write to
        found = estimate(source)
        assert not keep.closed
    assert found.estimated_by in (GUESS.estimated_by, "the inputs alone", "inputs and parameters")


@pytest.mark.slow
def test_a_task_that_never_ends_is_left_alone_after_a_while() -> None:
    begun = time.monotonic()
    found = estimate(plain("while True: pass", "1024, 1024"), patience=15.0)
    assert found.inputs == 1024 * 1024 * 4
    assert found.estimated_by == "inputs and parameters"
    assert time.monotonic() - begun < 100


@pytest.mark.rotates
def test_the_estimator_answers_in_a_process_of_its_own_and_outlives_a_task_that_breaks_it() -> None:
    with ForkServer() as server:
        estimator = Estimator(server, Limits(), {})
        try:
            assert estimator.estimate(plain("return x + 1"), None).estimated_by == "fake tensors"
            assert estimator.estimate("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n", None) == GUESS
            assert estimator.estimate(plain("return x + 1"), None).estimated_by == "fake tensors"
        finally:
            estimator.close()


LEFT_BEHIND = """
import os, signal, time
served = os.getppid()
if os.fork() == 0:
    mine, end = (os.getpid(), 1, served), time.monotonic() + 30
    while time.monotonic() < end:
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in mine:
                try:
                    os.kill(int(name), signal.SIGKILL)
                except OSError:
                    pass
        time.sleep(0.001)
    os._exit(0)
"""


@pytest.mark.rotates
def test_what_a_task_leaves_behind_kills_no_estimate_of_another() -> None:
    with ForkServer() as server:
        estimator = Estimator(server, Limits(), {})
        try:
            estimator.estimate(LEFT_BEHIND + plain("return x + 1"), None)
            assert estimator.estimate(plain("return x + 1"), None).estimated_by == "fake tensors"
        finally:
            estimator.close()
