"""The kernel library's parts over more than 2^31 elements: which index width they take, and that it is right.

The interpreter runs the last programs of real sizes on any machine; a GPU runs them whole and is compared at random places and the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from triton_process import interpreted

pytest.importorskip("triton", reason="the parts need Triton")
HERE = Path(__file__).parent
HALF = 2e-3
ROWS = 2**21 + 4
"""Of 1024 elements each."""


def meta(*shape: int) -> Tensor:
    return torch.empty(shape, device="meta", dtype=torch.float16)


def test_the_width_follows_the_largest_offset() -> None:
    from bottega.compiler.library.triton.large import index_is_large

    assert not index_is_large(meta(4096, 393216), None, meta(1))
    assert index_is_large(None, meta(ROWS, 1024))
    assert index_is_large(meta(4, 8).as_strided((2, 8), (2**31, 1)))
    assert not index_is_large(meta(1).expand(2**20, 2**20))


@pytest.mark.parametrize(
    ("file", "call", "small", "large"),
    [
        ("softmax", lambda function, x: function.softmax(x, 1), (64, 1024), (ROWS, 1024)),
        ("softmax", lambda function, x: function.softmax(x, 0), (4096, 4096), (8200, 2**18)),
        ("scan", lambda function, x: function.cumsum(x, 1), (4096, 1024), (ROWS, 1024)),
        ("extremes", lambda function, x: function.argmax(x), (4096, 4096), (ROWS, 1024)),
        ("normalisation", lambda function, x: function.layer_norm(x, x.shape[1:]), (64, 1024), (ROWS, 1024)),
        ("pooling", lambda function, x: function.avg_pool1d(x, 2), (64, 16), (2**27 + 4, 16)),
        ("pooling", lambda function, x: function.max_pool2d(x, 2), (4096, 1024, 1024), (2, 2**16, 2**15)),
        ("matmul", lambda function, x: function.mm(x, meta(16, 8192)), (4096, 16), (2**18 + 64, 16)),
        ("convolution", lambda function, x: function.conv2d(x, meta(3, 4, 3, 3)), (2, 4, 64, 64), (2, 4, 16400, 16384)),
    ],
)
def test_small_tensors_keep_32_bits(
    file: str,
    call: Callable[[Any, Tensor], Any],
    small: tuple[int, ...],
    large: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib import import_module

    from triton.runtime.jit import JITFunction

    launched: list[bool] = []
    monkeypatch.setattr(JITFunction, "run", lambda *given, **named: launched.append(named["LARGE"]))
    function = import_module(f"bottega.compiler.library.triton.{file}")
    for module in (function, import_module("bottega.compiler.library.triton.tiles")):
        monkeypatch.setattr(module, "ALONE", True, raising=False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # tensors of no device are taken; the kernels were read before
    for shape, wide in ((small, False), (large, True)):
        launched.clear()
        with torch.no_grad():
            call(function, meta(*shape))
        assert launched and set(launched) == {wide}


@pytest.mark.slow
@pytest.mark.parametrize("function", ["rows", "columns", "planes", "products", "convolutions", "attentions", "drafts"])
def test_the_last_programs_reach_the_end(function: str) -> None:
    found = interpreted(HERE / "large_interpreted.py", function)[function]
    assert found and [(name, error) for name, error in found if not error < HALF] == []


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """All parts, each as a lone operator, which takes halves; memory is given back after a test."""
    from importlib import import_module

    names = ("attention", "convolution", "cross_entropy", "elementwise", "extremes", "normalisation", "pooling", "matmul", "scan",
             "softmax", "tiles", "transposed_convolution")  # fmt: skip
    modules = [import_module(f"bottega.compiler.library.triton.{name}") for name in names]
    for module in modules:
        monkeypatch.setattr(module, "ALONE", True, raising=False)
    torch.manual_seed(0)
    with torch.no_grad():
        yield SimpleNamespace(**{name: value for module in modules for name, value in vars(module).items()})
    torch.cuda.empty_cache()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float16)


def some(size: int, count: int = 64) -> Tensor:
    """Random places below `size`, and the last ones."""
    return torch.cat([torch.randint(0, size, (count,)), torch.arange(max(size - count, 0), size)]).cuda()


def close(ours: Tensor, theirs: Tensor, limit: float = 5e-3) -> bool:
    apart = (ours.double() - theirs.double()).abs().max()
    return ours.shape == theirs.shape and float(apart / theirs.double().abs().max().clamp(min=1e-9)) < limit


@pytest.mark.gpu
def test_elements(functions: SimpleNamespace) -> None:
    x = draw(2**31 + 4096)
    at = some(x.numel())
    assert close(functions.gelu(x)[at], F.gelu(x[at].double()))


@pytest.mark.gpu
def test_rows(functions: SimpleNamespace) -> None:
    x, weight = draw(ROWS, 1024), draw(1024)
    at, target = some(ROWS), torch.randint(0, 1024, (ROWS,), device="cuda")
    seen = x[at].double()
    assert close(functions.softmax(x, 1)[at], seen.softmax(1))
    assert close(functions.layer_norm(x, (1024,), weight)[at], F.layer_norm(seen, (1024,), weight.double()))
    assert close(functions.cumsum(x, 1)[at], seen.cumsum(1))
    assert close(functions.adaptive_avg_pool1d(x, 1)[at], seen.mean(1, keepdim=True))
    losses = functions.cross_entropy(x, target, reduction="none")
    assert close(losses[at], F.cross_entropy(seen, target[at], reduction="none"))
    assert close(functions.cross_entropy(x, target), losses.double().mean())
    x[at, 77] = 9
    assert torch.equal(functions.argmax(x, 1)[at], torch.full_like(at, 77))


@pytest.mark.gpu
def test_columns(functions: SimpleNamespace) -> None:
    x = draw(8200, 2**18)
    at = some(2**18)
    seen = x[:, at].double()
    assert close(functions.softmax(x, 0)[:, at], seen.softmax(0))
    assert close(functions.cumsum(x, 0)[:, at], seen.cumsum(0))
    mean, var = torch.zeros(2, 2**18, device="cuda", dtype=torch.float16)
    normed = functions.batch_norm(x, mean, var, training=True)[:, at]
    assert close(normed, (seen - seen.mean(0)) / (seen.var(0, correction=0) + 1e-5).sqrt())
    x[8190, at] = 9
    assert torch.equal(functions.argmax(x, 0)[at], torch.full_like(at, 8190))


@pytest.mark.gpu
def test_one_row(functions: SimpleNamespace) -> None:
    x = draw(2**31 + 4096)
    at = some(x.numel())
    whole = torch.stack([piece.double().exp().sum() for piece in x.split(2**27)]).sum()
    assert close(functions.log_softmax(x, 0)[at], x[at].double() - whole.log())
    x[-3] = 30
    assert functions.argmax(x).item() == x.numel() - 3


@pytest.mark.gpu
def test_planes(functions: SimpleNamespace) -> None:
    x = draw(2, 2, 2**29 + 512)
    at, mean, var = some(x.shape[2]), *torch.zeros(2, 2, device="cuda", dtype=torch.float16)
    plane = x[:, 1].double()
    wanted = (plane[-1, at] - plane.mean()) / (plane.var(correction=0) + 1e-5).sqrt()
    del plane
    assert close(functions.batch_norm(x, mean, var, training=True)[-1, 1, at], wanted)
    plane = x[-1, 1].double()
    wanted = (plane[at] - plane.mean()) / (plane.var(correction=0) + 1e-5).sqrt()
    assert close(functions.instance_norm(x)[-1, 1, at], wanted)
    del x, plane
    x = draw(16, 32, 2100, 2100)
    assert close(functions.max_pool2d(x, 3, 2, 1)[-1, -1], F.max_pool2d(x[-1, -1:], 3, 2, 1)[0])
    x = x.view(-1, 20)
    at = some(len(x))
    assert close(functions.avg_pool1d(x, 2)[at], F.avg_pool1d(x[at].double(), 2))


@pytest.mark.gpu
def test_products(functions: SimpleNamespace) -> None:
    a, b = draw(65536, 64), draw(64, 65536)
    at = some(65536)
    assert close(functions.mm(a, b)[at[:, None], at], a[at].double() @ b[:, at].double())
    weight, x = draw(2**17 + 64, 16416), draw(512, 16416)
    at = some(len(weight))
    wanted = x.double() @ weight[at].double().T
    assert close(functions.linear(x, weight)[:, at], wanted)
    assert close(functions.matmul(weight, x[0])[at], wanted[0])


@pytest.mark.gpu
def test_convolutions(functions: SimpleNamespace) -> None:
    x = draw(16, 32, 2100, 2100)
    for groups, last in ((1, 32), (32, 1)):
        weight = draw(32, 32 // groups, 3, 3)
        ours = functions.conv2d(x, weight, padding=1, groups=groups)[-1, -1, -64:]
        theirs = F.conv2d(x[-1:, -last:, -65:].double(), weight[-1:].double(), padding=1)[0, 0, -64:]
        assert close(ours, theirs)
    x, weight = x[:, :, :1050, :1050].contiguous(), draw(32, 32, 2, 2)
    ours = functions.conv_transpose2d(x, weight, stride=2)[-1, :, -64:]
    assert close(ours, F.conv_transpose2d(x[-1:, :, -32:].double(), weight.double(), stride=2)[0])


@pytest.mark.gpu
def test_attention_under_a_large_mask(functions: SimpleNamespace) -> None:
    q, k, v = (draw(1, 1, 46400, 64) for _ in range(3))
    mask = torch.rand(46400, 46400, device="cuda") < 0.5
    at = some(46400, 16)
    ours = functions.scaled_dot_product_attention(q, k, v, mask)[:, :, at]
    assert close(ours, F.scaled_dot_product_attention(q[:, :, at].double(), k.double(), v.double(), mask[at]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["column_sum", "column_place", "half", "large_result", "lookup"])
def test_drafts_of_the_compiler(name: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(HERE.parents[0]))
    from triton_interpreted import loaded
    from wide_tasks import LARGE

    from bottega.compiler.step_compiler import StepCompiler

    task = next(one for one in LARGE if one.name == name)
    steps = StepCompiler(every_product=True).build(task, "triton").steps
    source = next(step.candidate.source for step in reversed(steps) if "CUDAGraph" not in step.candidate.source)
    namespace: dict[str, Any] = {"__name__": "task"}
    exec(compile(task.source, name, "exec"), namespace)
    with torch.no_grad(), torch.device("cuda"):
        torch.manual_seed(0)
        model, inputs = namespace["Model"](), namespace["get_inputs"]()
        ours = loaded(source, str(tmp_path), 0).ModelNew()
        ours.load_state_dict(model.state_dict())
        got = ours(*inputs).flatten()
        at = some(got.numel())
        got = got[at]
        assert close(got, model(*inputs).flatten()[at])
    del model, ours, inputs
    torch.cuda.empty_cache()
