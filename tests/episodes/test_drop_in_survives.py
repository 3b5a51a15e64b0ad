"""What people do with modules, done with a delivered one: whatever wraps, copies, moves or compiles it, the answers are the original's.

The kernel is plain torch with a mark in its answers, so that a test sees who answered.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from episodes.marked_kernel import MARK, inputs, made, who
from torch import nn


class Around(nn.Module):
    """A model with the module in it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, 2.0)  # type: ignore[no-any-return]


def compiled(module: Any) -> Any:
    return torch.compile(Around(module), backend="aot_eager", fullgraph=True)


def exported(module: Any) -> Any:
    return torch.export.export(Around(module), inputs()[:1]).module()


def deep_copied(module: Any) -> Any:
    return Around(copy.deepcopy(module))


def pickled(module: Any) -> Any:
    return Around(pickle.loads(pickle.dumps(module)))


def saved_whole(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(Around(module), file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


def loaded_from_a_checkpoint(module: Any) -> Any:
    other = copy.deepcopy(Around(module))
    with torch.no_grad():
        other.inner.linear.weight.zero_()
    assert other.load_state_dict(Around(module).state_dict(), strict=True)
    return other


def halved_and_back(module: Any) -> Any:
    return Around(module).half().float()


def moved(module: Any) -> Any:
    return Around(module).to("cpu").cpu().to(torch.device("cpu"), torch.float32)


def hooked(module: Any) -> Any:
    module.register_forward_pre_hook(lambda _, given: None)
    module.register_forward_hook(lambda _, given, answer: answer)
    return Around(module)


def in_evaluation(module: Any) -> Any:
    return Around(module).train().eval()


def data_parallel(module: Any) -> Any:
    return nn.parallel.DistributedDataParallel(Around(module))


def sharded(module: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(Around(module), mesh=init_device_mesh("cpu", (1,)))


KERNEL, ORIGINAL = "kernel", "original"
CASES = [
    (compiled, KERNEL),
    (exported, ORIGINAL),
    (deep_copied, KERNEL),
    (pickled, KERNEL),
    (saved_whole, KERNEL),
    (loaded_from_a_checkpoint, KERNEL),
    (halved_and_back, KERNEL),
    (moved, KERNEL),
    (hooked, KERNEL),
    (in_evaluation, KERNEL),
    (data_parallel, KERNEL),
    (sharded, ""),  # its parameters are gathered anew for every call: either may answer
]


@pytest.fixture
def process_group(tmp_path: Any) -> Any:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.rotates
@pytest.mark.parametrize(("change", "answers"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_delivered_module_survives(change: Callable[[Any], Any], answers: str, process_group: Any) -> None:
    optimized, task = made()
    original = task.Model(16)
    reference = copy.deepcopy(original)
    changed = change(optimized.load(original))
    x, scale = inputs()
    with torch.no_grad():
        for _ in range(2):
            if change is halved_and_back:
                torch.testing.assert_close(changed(x), reference(x, scale), atol=1e-2, rtol=1e-2)
                found = KERNEL if changed.inner.calls else ORIGINAL
            else:
                found = who(changed, lambda x: reference(x, scale), x)
            assert found == answers or not answers
        smaller = torch.randn(3, 16)
        if change is not exported:  # which has the shape that it was exported with
            torch.testing.assert_close(changed(smaller), reference(smaller, scale), atol=1e-2, rtol=1e-2)


@pytest.mark.rotates
@pytest.mark.parametrize("change", [compiled, deep_copied, pickled, hooked, data_parallel], ids=lambda value: value.__name__)
def test_gradients_are_those_of_the_original(change: Callable[[Any], Any], process_group: Any) -> None:
    optimized, task = made()
    original = task.Model(16)
    reference = copy.deepcopy(original)
    changed = change(optimized.load(original))
    x, scale = inputs()
    answer = changed(x)
    assert torch.equal(answer, reference(x, scale)) and answer.requires_grad
    answer.sum().backward()
    reference(x, scale).sum().backward()
    gradients = dict(changed.named_parameters())
    ours = next(value for name, value in gradients.items() if name.endswith("linear.weight"))
    torch.testing.assert_close(ours.grad, reference.linear.weight.grad)


@torch.no_grad()
def test_an_argument_that_is_its_default_may_be_written_out() -> None:
    texts = [text.replace("def forward(self, x, scale)", "def forward(self, x, scale=2.0, mask=None)") for text in _texts()]
    texts[1] = texts[1].replace("torch.randn(4, 16), 2.0]", "torch.randn(4, 16)]")
    optimized, task = made(*texts)
    module = optimized.load(task.Model(16))
    x, _ = inputs()
    module(x)
    module(x, 2.0)
    module(x, 2.0, None)
    module(x, scale=2.0, mask=None)
    assert module.calls == 4 and not module.fallbacks
    module(x, 3.0)
    assert module.calls == 4


def _texts() -> list[str]:
    from episodes.marked_kernel import KERNEL as kernel
    from episodes.marked_kernel import TASK as task

    return [kernel, task]


@pytest.mark.gpu
@torch.no_grad()
def test_a_cuda_graph_replays_the_kernel() -> None:
    task_text, kernel_text = _texts()[1], _texts()[0]
    optimized, task = made(kernel_text, task_text, device="cuda")
    original = task.Model(16).cuda()
    module = optimized.load(original)
    x = torch.randn(4, 16, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        module(x, 2.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = module(x, 2.0)
    x.copy_(torch.randn(4, 16, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(answer, original(x, 2.0) + MARK, atol=1e-5, rtol=1e-5)
