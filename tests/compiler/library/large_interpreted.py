"""Kernels over more than 2^31 elements by Triton's interpreter, against torch. Started as a process of its own:

    TRITON_INTERPRET=1 python large_interpreted.py

Memory that nobody touches costs nothing, so the tensors have their real sizes. Only the last programs of a grid run, the ones whose
offsets do not fit 32 bits, and only what they wrote is compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.compiler.library.triton import (
    attention,
    convolution,
    cross_entropy,
    extremes,
    matmul,
    normalisation,
    pooling,
    scan,
    softmax,
    tiles,
    transposed_convolution,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
Found = Iterator[tuple[str, float]]
ROWS, TALL, WIDE = 2**21 + 4, 8200, 2**18
"""Rows of 1024, and columns of a matrix, that have more elements than 32 bits count."""


def run_last_programs_only() -> None:
    from triton.runtime import interpreter

    def run(executor: Any, *arguments: Any, **named: Any) -> None:
        import inspect

        known = inspect.getfullargspec(executor.fn).args
        named = {name: value for name, value in named.items() if name in known}
        scope = interpreter._patch_lang(executor.fn)
        try:
            given = inspect.getcallargs(executor.fn, *arguments, **named)
            given = {
                name: value if name in executor.constexprs else interpreter._implicit_cvt(value)
                for name, value in given.items()
            }
            grid = tuple(executor.grid) + (1,) * (3 - len(executor.grid))
            interpreter.interpreter_builder.set_grid_dim(*grid)
            interpreter.interpreter_builder.set_grid_idx(*(size - 1 for size in grid))
            executor.fn(**given)
        finally:
            scope.restore()

    interpreter.GridExecutor.__call__ = run


def empty(*shape: int) -> Tensor:
    """Of halves, which are zero until they are written."""
    return torch.empty(shape, dtype=torch.float16)


def distance(ours: Tensor, theirs: Tensor) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max().clamp(min=1e-9))


def tall() -> Tensor:
    x = empty(ROWS, 1024)
    x[-2:] = torch.randn(2, 1024)
    return x


def matrix() -> Tensor:
    x = empty(TALL, WIDE)
    x[:, -64:] = torch.randn(TALL, 64) * 0.1
    x[-1 - torch.arange(64), torch.arange(-64, 0)] = 5  # the one largest of its column
    return x


def rows() -> Found:
    x = tall()
    yield "softmax of rows", distance(softmax.softmax(x, 1)[-2:], x[-2:].double().softmax(1))
    weight, bias = torch.randn(2, 1024).half()
    wanted = F.layer_norm(x[-2:].double(), (1024,), weight.double(), bias.double())
    yield "layer_norm", distance(normalisation.layer_norm(x, (1024,), weight, bias)[-2:], wanted)
    yield "cumsum of rows", distance(scan.cumsum(x, 1)[-2:], x[-2:].double().cumsum(1))
    yield "argmax of rows", distance(extremes.argmax(x, 1)[-1:], x[-1:].argmax(1))
    yield "mean of rows", distance(pooling.adaptive_avg_pool1d(x, 1)[-2:], x[-2:].double().mean(1, keepdim=True))
    target = torch.full((ROWS,), 7)
    loss = cross_entropy.cross_entropy(x, target, reduction="none")[-2:]
    yield "cross_entropy", distance(loss, F.cross_entropy(x[-2:].double(), target[-2:], reduction="none"))


def columns() -> Found:
    x = matrix()
    function = x[:, -32:]
    yield "softmax of columns", distance(softmax.softmax(x, 0)[:, -32:], function.double().softmax(0))
    yield "cumsum of columns", distance(scan.cumsum(x, 0)[:, -32:], function.double().cumsum(0))
    extremes.EXTREME_TALL = 128
    yield "argmax of columns", distance(extremes.argmax(x, 0)[-32:], function.argmax(0))
    target = torch.full((1, WIDE), 9)
    loss = cross_entropy.cross_entropy(x[None], target, reduction="none")[0, -32:]
    yield "cross_entropy of columns", distance(loss, F.cross_entropy(function.double().T, target[0, -32:], reduction="none"))
    table = empty(2**16 + 1, 2**15)
    table[-1, -32:] = torch.arange(32)
    mean, var = torch.zeros(2, 2**15).half() + 1
    normed = normalisation.batch_norm(table, mean, var)[-1, -32:]
    yield "batch_norm of columns", distance(normed, (torch.arange(32) - 1.0) / (1 + 1e-5) ** 0.5)


def planes() -> Found:
    x = empty(3, 3, 2**28)
    x[-1, -1, -64:] = torch.randn(64)
    mean, var = torch.randn(3).half(), torch.rand(3).half() + 1
    wanted = (x[-1, -1, -64:].double() - mean[2].double()) / (var[2].double() + 1e-5).sqrt()
    yield "batch_norm", distance(normalisation.batch_norm(x, mean, var)[-1, -1, -64:], wanted)
    small = empty(2**27 + 4, 1, 16)
    small[-2:] = torch.randn(2, 1, 16)
    wanted = F.avg_pool1d(small[-2:].double(), 2)
    yield "pool of short planes", distance(pooling.avg_pool1d(small, 2)[-2:], wanted)
    long = empty(1, 1, 2**31 + 2**13)
    long[..., -256:] = torch.randn(256)
    wanted = F.max_pool1d(long[..., -256:].double(), 2)
    yield "pool of a long plane", distance(pooling.max_pool1d(long, 2)[..., -128:], wanted)


def products() -> Found:
    a, b = torch.randn(2**18 + 64, 16).half() * 0.1, torch.randn(16, 2**13).half() * 0.1
    yield "large result", distance(matmul.mm(a, b)[-64:, -64:], a[-64:].double() @ b[:, -64:].double())
    weight = empty(2**17 + 64, 16416)
    weight[-64:] = torch.randn(64, 16416) * 0.1
    x = torch.randn(64, 16416).half() * 0.1
    wanted = x.double() @ weight[-64:].double().T
    yield "large right operand", distance(matmul.linear(x, weight)[:, -64:], wanted)
    yield "large left operand", distance(matmul.mm(weight, x.T)[-64:], wanted.T)
    yield "matrix by vector", distance(matmul.matmul(weight, x[0])[-2:], wanted[0, -2:])


def convolutions() -> Found:
    x = empty(2, 4, 16400, 16384)
    x[-1, :, -5:] = torch.randn(4, 5, 16384)
    seen = x[-1:, :, -5:].double()
    weight = torch.randn(3, 4, 3, 3).half() * 0.2
    out = convolution.conv2d(x, weight)[-1:, :, -1, -16:]
    yield "conv2d", distance(out, F.conv2d(seen, weight.double())[:, :, -1, -16:])
    weight = torch.randn(4, 1, 3, 3).half() * 0.2
    out = convolution.conv2d(x, weight, groups=4)[-1:, -1:, -1, -16:]
    yield "depthwise", distance(out, F.conv2d(seen, weight.double(), groups=4)[:, -1:, -1, -16:])
    x = empty(1, 4, 8200, 8192)
    x[:, :, -1] = torch.randn(4, 8192)
    weight = torch.randn(4, 8, 2, 2).half() * 0.2
    out = transposed_convolution.conv_transpose2d(x, weight, stride=2)[:, :, -1, -8:]
    wanted = F.conv_transpose2d(x[:, :, -1:].double(), weight.double(), stride=2)[:, :, -1, -8:]
    yield "conv_transpose2d", distance(out, wanted)


def attentions() -> Found:
    query, key = empty(1, 1, 2**27 + 64, 16), torch.randn(1, 1, 32, 16).half()
    query[..., -32:, :] = torch.randn(32, 16)
    out = attention.scaled_dot_product_attention(query, key, key)[..., -32:, :]
    wanted = F.scaled_dot_product_attention(query[..., -32:, :].double(), key.double(), key.double())
    yield "attention", distance(out, wanted)


def drafts() -> Found:
    """The last step that the compiler writes for a task, and what it computes at the end."""
    from triton_interpreted import stand_in
    from wide_tasks import LARGE

    from bottega.compiler.step_compiler import StepCompiler

    stand_in()
    ends: dict[str, tuple[Callable[[], Tensor], Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "chain": (tall, lambda x: torch.sigmoid(x[-1:, -512:] * 2.0) * x[-1:, -512:], lambda y: y[-1:, -512:]),
        "softmax": (tall, lambda x: x[-1:].softmax(1), lambda y: y[-1:]),
        "column_sum": (matrix, lambda x: x[:, -32:].sum(0), lambda y: y[-32:]),
        "column_scan": (matrix, lambda x: x[:, -32:].cumsum(0), lambda y: y[:, -32:]),
        "half": (twice, lambda x: torch.relu(x[-1:, -512:]), lambda y: y[-1:, -512:]),
    }
    with tempfile.TemporaryDirectory() as folder:
        for task in LARGE:
            if task.name not in ends:
                continue
            made, theirs, last = ends[task.name]
            steps = StepCompiler().build(task, "triton", without=("split_rows",)).steps
            source = next(step.candidate.source for step in reversed(steps) if "CUDAGraph" not in step.candidate.source)
            path = Path(folder) / f"{task.name}.py"
            path.write_text(source)
            spec = spec_from_file_location(task.name, path)
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            x = made()
            yield f"draft of {task.name}", distance(last(module.ModelNew()(x)), theirs(x))


def twice() -> Tensor:
    x = empty(2 * ROWS, 1024)
    x[-2:] = torch.randn(2, 1024)
    return x


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run_last_programs_only()
    for module in (attention, convolution, normalisation, pooling, matmul, scan, softmax, tiles, transposed_convolution):
        module.ALONE = True  # type: ignore[attr-defined]
    functions = {
        function.__name__: function for function in (rows, columns, planes, products, convolutions, attentions, drafts)
    }
    with torch.no_grad():
        print(json.dumps({name: list(functions[name]()) for name in sys.argv[1:] or functions}))
