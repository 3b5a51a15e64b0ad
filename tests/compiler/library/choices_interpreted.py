"""Runs library functions with choices that are offered for small operands, by Triton's interpreter, against torch. Started as a process of its
own:

TRITON_INTERPRET=1 python choices_interpreted.py
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.compiler.library.choices import FUNCTIONS, CallOperands

FILES = (
    "matmul", "convolution", "transposed_convolution", "attention", "normalisation", "softmax", "cross_entropy", "scan", "extremes",
    "pooling", "elementwise",
)  # fmt: skip


def cases() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    x, image = torch.randn(40, 48), torch.randn(2, 16, 12, 10)
    yield "linear", (x, torch.randn(24, 48), torch.randn(24)), {}
    yield "linear", (x.half(), torch.randn(24, 48).half()), {}
    yield "linear", (torch.randn(16, 1024), torch.randn(16, 1024)), {}
    yield "matmul", (torch.randn(3, 20, 32), torch.randn(3, 32, 40)), {}
    yield "matmul", (torch.randn(40, 300), torch.randn(300)), {}
    yield "bmm", (torch.randn(3, 20, 32), torch.randn(3, 32, 40)), {}
    yield "conv2d", (image, torch.randn(20, 16, 3, 3), torch.randn(20)), {"padding": 1}
    yield "conv2d", (image, torch.randn(16, 1, 3, 3)), {"groups": 16}
    yield "conv2d", (image, torch.randn(16, 4, 3, 3)), {"groups": 4, "stride": 2}
    yield "conv1d", (torch.randn(2, 16, 30), torch.randn(16, 1, 5)), {"groups": 16}
    yield "conv2d", (image.half(), torch.randn(20, 16, 3, 3).half()), {}
    yield "conv_transpose2d", (image, torch.randn(16, 8, 4, 4)), {"stride": 2, "padding": 1}
    yield "scaled_dot_product_attention", (torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16)), {}
    yield "layer_norm", (torch.randn(30, 70), (70,), torch.randn(70), torch.randn(70)), {}
    yield "layer_norm", (torch.randn(4, 1500), (1500,), torch.randn(1500), torch.randn(1500)), {}
    yield "group_norm", (image, 4), {}
    yield "instance_norm", (image,), {}
    yield "batch_norm", (image, None, None), {"training": True}
    yield "batch_norm", (torch.randn(70, 30), None, None), {"training": True}
    yield "softmax", (torch.randn(30, 70),), {"dim": -1}
    yield "softmax", (torch.randn(4, 1500),), {"dim": 1}
    yield "softmax", (torch.randn(3, 20, 17),), {"dim": 1}
    yield "log_softmax", (torch.randn(30, 70),), {"dim": 1}
    yield "cross_entropy", (torch.randn(30, 70), torch.randint(70, (30,))), {}
    yield "cross_entropy", (torch.randn(4, 1500), torch.randint(1500, (4,))), {}
    yield "cumsum", (torch.randn(9, 300),), {"dim": 1}
    yield "cumsum", (torch.randn(3, 300, 5),), {"dim": 1}
    yield "argmax", (torch.randn(9, 300),), {"dim": 1}
    yield "argmin", (torch.randn(3, 30, 5),), {"dim": 1}
    yield "max_pool2d", (image, 2), {}
    yield "avg_pool2d", (image, 3, 1, 1), {}
    yield "adaptive_avg_pool2d", (image, 1), {}
    yield "gelu", (x,), {}


def torch_function(name: str) -> Any:
    return getattr(torch if name in ("matmul", "bmm", "cumsum", "argmax", "argmin") else F, name)


def found() -> Iterator[tuple[str, float]]:
    library = {
        name: getattr(file, name)
        for file in (importlib.import_module(f"bottega.compiler.library.triton.{one}") for one in FILES)
        for name in FUNCTIONS
        if hasattr(file, name)
    }
    for name, given, named in cases():
        tensors = [one for one in given if isinstance(one, Tensor)]
        wanted = torch_function(name)(*given, **named)
        options = {**named, **({"num_groups": given[1]} if name == "group_norm" else {})}
        operands = CallOperands(
            (*(tuple(one.shape) for one in tensors), tuple(wanted.shape)), str(tensors[0].dtype).removeprefix("torch."), options
        )
        settings = list(FUNCTIONS[name].settings(operands))
        for one in dict.fromkeys((settings[0], settings[len(settings) // 2], settings[-1])):
            assert {word for word, _ in one.values} <= set(FUNCTIONS[name].names)
            choices: dict[str, Any] = {"own": True, **dict(one.values)}
            ours = library[name](*given, **named, **choices)
            scale = wanted.double().abs().max().clamp(min=1e-9)
            error = float((ours.double() - wanted.double()).abs().max() / scale) if ours.shape == wanted.shape else float("inf")
            yield f"{name} {[tuple(t.shape) for t in tensors]} {one.text}", error / (100 if operands.is_half else 1)
        theirs = library[name](*given, **named, own=False)
        yield f"{name} own=False", float((theirs.double() - wanted.double()).abs().max())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with torch.no_grad():
        print(json.dumps(list(found())))
