"""Examples under other names: consistent in task and kernel, nothing of torch's touched, and still the same computation."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from bottega.agents import writer
from bottega.agents.answers.fences import blocks, fenced
from bottega.backbone.chat import Message
from bottega.data.answers import written
from bottega.data.example import Example
from bottega.data.own_names import declared_names, own_names
from bottega.data.renaming import renamed, renamings

TASK = """import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 4


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.full((width,), 0.5))
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, bias):
        x = F.linear(x, self.linear.weight, self.linear.bias)
        return x * self.gain * self.weight + bias


def get_inputs():
    return [torch.randn(rows, 8), torch.randn(8)]


def get_init_inputs():
    return [8]
"""
GATED = """import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        self.blocks = nn.Sequential(*[nn.Conv2d(channels, channels, 3) for _ in range(depth)])
        self.normed = nn.BatchNorm2d(channels)
        self.ceiling = 2.0

    def forward(self, x):
        return self.normed(self.blocks(x)).clamp_max(self.ceiling)
"""
LAYERS = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plane(x, out, n, C, ceiling, BK: tl.constexpr):
    blocks = tl.cdiv(C, BK)
    for step in range(9 * blocks):
        x_val = tl.load(x + step)
        tl.store(out + step, tl.minimum(x_val, ceiling))


def tiles(rows, columns, depth):
    return 64, 64, max(1, min(8, depth // 256))


class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        x = x.contiguous()
        return torch.empty_like(x)


""" + GATED[GATED.index("class Model") :].replace("class Model", "class ModelNew").replace("nn.Batch", "Batch").replace(
    "return ", "plane[(9,)](x, x, 9, 8, self.ceiling, BK=32)\n        return "
)
ATTENTION = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, query, value):
        return torch.softmax(query.clamp(self.floor) * value, -1)
"""
NATIVE = """import torch
import torch.nn as nn

from bottega.runtime import cpp


native = cpp(r\"\"\"
#include <cmath>
#include <cstdint>

static inline float maximum(float a, float b) { return b > a || b != b ? b : a; }

static inline float exp_simd(float x) {  // 2^n * e^r
  const float c = x < -87.f ? -87.f : x, n = std::floor(c * 1.44269504f + 0.5f);
  return c - n;
}

template <class F> static inline float largest_of(int64_t count, F value) {
  float best = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    const float v = value(i);
    best = v > best ? v : best;
  }
  return best;
}

extern "C" void fused(const float* query, const float* value2, float* out, int64_t width, float floor) {
  const float top = largest_of(width, [=](int64_t i) { return maximum(query[i], floor) * value2[i]; });
  for (int64_t i = 0; i < width; ++i) out[i] = exp_simd(query[i] - top);
}
\"\"\")


class ModelNew(nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, query, value):
        out = torch.empty_like(query)
        native.fused(query, value, out, query.numel(), self.floor)
        return out
"""
KERNEL = TASK[: TASK.index("def get_inputs")].replace("class Model", "class ModelNew").replace("rows = 4\n\n\n", "")


def example(task: str = TASK, kernel: str = KERNEL) -> Example:
    said = (
        Message("system", "Write."),
        Message("user", fenced(task, "python")),
        Message("assistant", written(kernel, "One kernel.", "terse")),
    )
    return Example("write", "first", said, "t", "t", "triton", 1, "matmul", ("linear",), "chain", ("naive",), "faster")


@pytest.mark.parametrize("seed", range(6))
def test_a_renamed_example_computes_the_same(seed: int) -> None:
    torch = pytest.importorskip("torch")
    copy = renamed(example(), seed)
    assert copy is not None and copy.renamed and copy.messages != example().messages
    task, kernel = {}, {}
    exec(blocks(copy.messages[1].content)[0].body, task)
    exec(writer.parse(copy.messages[-1].content).source, kernel)
    model, new = task["Model"](*task["get_init_inputs"]()), kernel["ModelNew"](*task["get_init_inputs"]())
    new.load_state_dict(model.state_dict())
    given = task["get_inputs"]()
    assert torch.equal(model(*given), new(*given))


def test_names_that_mean_something_else_as_well_stay() -> None:
    for seed in range(6):
        copy = renamed(example(), seed)
        assert copy is not None
        text = copy.messages[-1].content
        assert (
            "F.linear(" in text and ".linear.weight" in text and ".linear.bias" in text
        )  # linear, weight, bias: also torch's words
        assert "self.weight" in text


def test_copies_differ_and_are_the_same_again() -> None:
    copies = [renamed(example(), seed) for seed in range(4)]
    assert len({copy.messages for copy in copies if copy}) > 1
    assert copies == [renamed(example(), seed) for seed in range(4)]


def test_copies_made_together_are_those_made_alone() -> None:
    assert renamings(example(), 4) == [renamed(example(), seed) for seed in range(4)]


def test_what_the_teacher_calls_something_of_its_own_is_not_exchanged() -> None:
    changed = set()
    for seed in range(12):
        copy = renamed(example(GATED, LAYERS), seed)
        assert copy is not None
        answer = copy.messages[-1].content
        assert LAYERS[LAYERS.index("def tiles") : LAYERS.index("class ModelNew")] in answer  # x and depth are its parameters
        assert "    blocks = tl.cdiv(C, BK)\n" in answer and "self.blocks(x)" in answer
        changed |= {name for name in ("channels", "normed", "ceiling") if f" {name}" not in answer and f".{name}" not in answer}
    assert changed == {"channels", "normed", "ceiling"}


def test_helpers_in_native_text_are_the_same_in_every_copy() -> None:
    helpers = NATIVE[: NATIVE.index('extern "C"')]
    changed = 0
    for seed in range(12):
        copy = renamed(example(ATTENTION, NATIVE), seed)
        if copy is None:
            continue
        answer = writer.parse(copy.messages[-1].content).source
        assert answer.startswith(helpers) and "value2[i]" in answer
        name = re.search(r"def forward\(self, (\w+), value\)", answer)
        assert name is not None and f"fused(const float* {name[1]}, const float* value2" in answer
        assert f"maximum({name[1]}[i], floor)" in answer  # std::floor is not the task's
        changed += name[1] != "query"
    assert changed > 2


def test_kernel_parameters_follow_the_tensors_that_they_carry() -> None:
    kernel = KERNEL.replace(
        "class ModelNew", "@triton.jit\ndef scaled(x, x_ptr, gain):\n    x_val = tl.load(x_ptr) * gain\n\n\nclass ModelNew"
    )
    kernel = kernel.replace("        return", "        scaled[(1,)](x, x, self.gain)\n        return")
    assert "x" not in own_names(ast.parse(kernel), ast.parse(TASK))
    names = set()
    for seed in range(8):
        if (copy := renamed(example(kernel=kernel), seed)) is None:
            continue
        found = re.search(
            r"def scaled\((\w+), (\w+)_ptr, (\w+)\):\n    (\w+)_val = tl.load\((\w+)_ptr\) \* (\w+)", copy.messages[-1].content
        )
        assert found is not None and found[1] == found[2] == found[4] == found[5] and found[3] == found[6]
        names.add(found[1])
    assert len(names) > 2


def test_a_local_of_the_module_is_the_teachers_unless_the_task_has_it_or_it_carries_the_name() -> None:
    task = "class Model:\n    def __init__(self, width, gain):\n        self.gain = gain\n    def forward(self, x):\n        x = x * self.gain\n"
    answer = task.replace("class Model", "class ModelNew").replace(
        "x = x * self.gain", "width = 2\n        gain = self.gain\n        x = 3"
    )
    assert own_names(ast.parse(answer), ast.parse(task)) == {"width"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("const float low = f(a, b), high = 1;", {"low", "high"}),
        ("float power, *rest;", {"power", "rest"}),
        ("std::vector<vec> packed(panels * k);", {"packed"}),
        ("const float* lines[HIGH]; vec sum[HIGH][2] = {};", {"lines", "sum"}),
        ("[=](int64_t i) { return total[i] * a; };", {"i"}),
        ('extern "C" void fused(const float* x, int64_t n) { out[i] = x * y; }', {"fused"}),
        ("// float said\n#pragma omp parallel for\nreturn third; else fourth = a * b;", set()),
    ],
)
def test_declarations_are_found_in_native_text(text: str, names: set[str]) -> None:
    assert declared_names(text) - {"float"} == names


def test_what_cannot_be_read_is_left_out() -> None:
    broken = replace(
        example(),
        messages=(Message("system", "Write."), Message("user", fenced("def (", "python")), Message("assistant", "no")),
    )
    assert renamed(broken, 0) is None
    assert renamed(replace(broken, messages=broken.messages[:1]), 0) is None


def test_no_new_name_was_there_before() -> None:
    before = {node.id for node in ast.walk(ast.parse(TASK)) if isinstance(node, ast.Name)} | {"gain", "x", "width"}
    for seed in range(6):
        copy = renamed(example(), seed)
        assert copy is not None
        after = ast.parse(blocks(copy.messages[1].content)[0].body)
        forward = next(node for node in ast.walk(after) if isinstance(node, ast.FunctionDef) and node.name == "forward")
        new = [argument.arg for argument in forward.args.args[1:]]
        assert len(set(new)) == 2 and all(name in ("x", "bias") or name not in before for name in new)
