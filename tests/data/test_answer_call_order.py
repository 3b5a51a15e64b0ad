"""An answer as a walk along the sketch: the same program, the calls in their places."""

from __future__ import annotations

import ast

from bottega.data.call_order import IMPORTS, walked

SKETCH = """forward(x)
x 8x16
self.conv.weight 4x16
t1 = linear(x, self.conv.weight) 8x4
t2 = tanh(t1) 8x4
t3 = add(t2, x) 8x4
t4 = sum(t3, dim=1) 8
return t4"""
ANSWER = """import torch
import triton
import triton.language as tl


@triton.jit
def t4_kernel(t1_ptr, x_ptr, t4_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    t1 = tl.load(t1_ptr + row * columns + column)
    v0 = tl.exp(2.0 * t1)
    t2 = (v0 - 1.0) / (v0 + 1.0)
    x = tl.load(x_ptr + row * columns + column)
    t3 = t2 + x
    total = tl.sum(t3, axis=0)
    tl.store(t4_ptr + row, total)


class ModelNew(Model):
    def forward(self, x):
        t1 = linear(x, self.conv.weight)
        t4 = torch.empty((8,), device=x.device, dtype=x.dtype)
        columns = t1.shape[1]
        t4_kernel[(8,)](t1, x, t4, columns, BLOCK=4)
        return t4
"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_forward_comes_first_and_tells_what_each_launch_computes() -> None:
    got = lines(walked(ANSWER, SKETCH))
    assert got.index("class ModelNew(Model):") < got.index("@triton.jit")
    place = got.index("t4 = torch.empty((8,), device=x.device, dtype=x.dtype)")
    assert got[place - 3 : place] == ["# t2 = tanh(t1)", "# t3 = add(t2, x)", "# t4 = sum(t3, dim=1)"]
    assert got[place - 4] == "t1 = linear(x, self.conv.weight)"  # a call of its own stands for itself


def test_a_kernel_tells_each_call_above_its_lines_and_a_reduction_has_its_results_name() -> None:
    got = lines(walked(ANSWER, SKETCH))
    body = got[got.index("t1 = tl.load(t1_ptr + row * columns + column)") :]
    assert body == [
        "t1 = tl.load(t1_ptr + row * columns + column)",
        "# t2 = tanh(t1)",
        "v0 = tl.exp(2.0 * t1)",
        "t2 = (v0 - 1.0) / (v0 + 1.0)",
        "x = tl.load(x_ptr + row * columns + column)",
        "# t3 = add(t2, x)",
        "t3 = t2 + x",
        "# t4 = sum(t3, dim=1)",
        "t4 = tl.sum(t3, axis=0)",
        "tl.store(t4_ptr + row, t4)",
    ]


def test_the_program_is_the_same() -> None:
    def pieces(text: str) -> dict[str, str]:
        tree = ast.parse(text.replace("total", "t4"))
        return {node.name: ast.dump(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    assert pieces(walked(ANSWER, SKETCH)) == pieces(ANSWER)
    assert walked(walked(ANSWER, SKETCH), SKETCH).count("class ModelNew") == 1


def test_what_has_no_such_form_stays_as_it_is() -> None:
    exchanged = (
        "class ModelNew(Model):\n    def __init__(self):\n        super().__init__()\n        self.layer.__class__ = Linear\n"
    )
    for text, sketch in ((exchanged, SKETCH), ("def broken(:", SKETCH), (ANSWER, ""), (ANSWER + "\nscale = 3\n", SKETCH)):
        assert walked(text, sketch) == text


def test_imports_are_always_the_same() -> None:
    alone = "import torch.nn.functional as F\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return F.pad(x, (1, 1))\n"
    body = "class ModelNew(Model):\n    def forward(self, x):\n        return torch.nn.functional.pad(x, (1, 1))\n"
    assert walked(alone, SKETCH) == "\n".join(IMPORTS) + "\n\n\n" + body
    assert walked(ANSWER, SKETCH).startswith("\n".join(IMPORTS) + "\n\n\nclass ModelNew")


VIEWED = """forward(x)
x 8x16x4
self.norm.weight 16
t1 = abs(x) 8x16x4
t2 = transpose(t1, 1, 2) 8x4x16
t3 = layer_norm(t2, (16,), self.norm.weight) 8x4x16
t4 = dropout(t3, p=0) 8x4x16
t5 = exp(t4) 8x4x16
return t5"""
KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def t5_kernel(x_ptr, weight_ptr, t5_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row // 4 * 64 + row % 4 + column * 4)
    t1 = tl.abs(x)
    total = tl.sum(t1, axis=0)
    v0 = t1 - total / columns
    spread = tl.sum(v0 * v0, axis=0)
    weight = tl.load(weight_ptr + column)
    t3 = v0 * tl.rsqrt(spread / columns + 1e-05) * weight
    t5 = tl.exp(t3)
    tl.store(t5_ptr + row * columns + column, t5)


class ModelNew(Model):
    def forward(self, x):
        t5 = torch.empty((8, 4, 16), device=x.device, dtype=x.dtype)
        t5_kernel[(32,)](x, self.norm.weight, t5, 16, BLOCK=16)
        return t5
"""


def test_what_gives_the_same_values_gets_a_line_and_its_name() -> None:
    got = lines(walked(KERNEL, VIEWED))
    assert got[got.index("t1 = tl.abs(x)") :] == [
        "t1 = tl.abs(x)",
        "# t2 = transpose(t1, 1, 2)",
        "t2 = t1",
        "# t3 = layer_norm(t2, (16,), self.norm.weight)",
        "total = tl.sum(t2, axis=0)",
        "v0 = t2 - total / columns",
        "spread = tl.sum(v0 * v0, axis=0)",
        "weight = tl.load(weight_ptr + column)",
        "t3 = v0 * tl.rsqrt(spread / columns + 1e-05) * weight",
        "# t4 = dropout(t3, p=0)",
        "t4 = t3",
        "# t5 = exp(t4)",
        "t5 = tl.exp(t4)",
        "tl.store(t5_ptr + row * columns + column, t5)",
    ]


HALVES = """forward(x)
x 4096
t1 = relu(x) 4096
t2 = sum(t1) scalar
t3 = mul(t2, 2) scalar
return t3"""
TWO_KERNELS = """import torch
import triton
import triton.language as tl


@triton.jit
def t3_partial_kernel(x_ptr, total_parts_ptr, n, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + column)
    t1 = tl.where(x < 0, 0.0, x)
    total = tl.sum(t1, axis=0)
    tl.store(total_parts_ptr + tl.program_id(0), total)


@triton.jit
def t3_final_kernel(total_parts_ptr, t3_ptr, SPLITS: tl.constexpr):
    total = tl.load(total_parts_ptr + tl.arange(0, SPLITS))
    total = tl.sum(total, axis=0)
    t3 = total * 2.0
    tl.store(t3_ptr, t3)


class ModelNew(Model):
    def forward(self, x):
        t3 = torch.empty((), device=x.device, dtype=x.dtype)
        total_parts = torch.empty((4,), device=x.device, dtype=torch.float32)
        t3_partial_kernel[(4,)](x, total_parts, 4096, BLOCK=1024)
        t3_final_kernel[(1,)](total_parts, t3, SPLITS=4)
        return t3
"""


def test_a_kernel_that_ends_what_another_began_tells_from_the_reduction_on() -> None:
    text = walked(TWO_KERNELS, HALVES)
    final = lines(text[text.index("def t3_final_kernel") :])
    assert [line for line in final if line.startswith("#")] == ["# t2 = sum(t1)", "# t3 = mul(t2, 2)"]
    assert text.count("# t1 = relu(x)") == 2  # before the launch, and in the first kernel


def test_a_name_is_given_only_to_what_has_a_value_there() -> None:
    looped = KERNEL.replace(
        "    t1 = tl.abs(x)\n    total = tl.sum(t1, axis=0)\n",
        "    for start in range(2):\n        t1 = tl.abs(x)\n    total = tl.sum(x, axis=0)\n",
    )
    assert "t2 = t1" not in walked(looped, VIEWED)
    late = KERNEL.replace(
        "    t1 = tl.abs(x)\n    total = tl.sum(t1, axis=0)\n", "    total = tl.sum(x, axis=0)\n    t1 = tl.abs(x)\n"
    )
    text = lines(walked(late, VIEWED))
    assert "t2 = t1" not in text or text.index("t1 = tl.abs(x)") < text.index("t2 = t1")


def test_a_value_that_a_loop_computes_anew_keeps_its_own_name_there() -> None:
    before = "    spread = tl.sum(v0 * v0, axis=0)\n"
    loop = "    for start in range(2):\n        t1 = tl.abs(x + start)\n        spread += tl.sum(t1 * t1, axis=0)\n"
    looped = KERNEL.replace(before, before + loop)
    text = lines(walked(looped, VIEWED))
    assert "t2 = t1" in text and "total = tl.sum(t2, axis=0)" in text
    assert "spread += tl.sum(t1 * t1, axis=0)" in text
