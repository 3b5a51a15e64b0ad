"""Modules whose results hang on infinities, signs, bits and places: what they give must be torch's to the last whole number, NaN and infinity."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for a process that runs a file of this folder alone

from module_task import module_task as module

INF = "torch.inf"
ROWS = f"""torch.cat((torch.randn(3, 21), torch.full((1, 21), -{INF}), torch.full((1, 21), torch.finfo(torch.float32).min),
        torch.randn(1, 21).index_fill(1, torch.tensor([4]), {INF}), torch.full((1, 21), {INF}),
        torch.randn(2, 21).index_fill(1, torch.arange(9), -{INF}).index_fill(1, torch.tensor([20]), torch.nan),
        torch.randn(1, 21).index_fill(1, torch.tensor([4]), {INF}).index_fill(1, torch.tensor([2]), torch.nan)))"""
HEADS = ", ".join(["torch.randn(2, 3, 9, 8)"] * 3)
TYPES = {"int8": (-128, 128), "uint8": (0, 256), "int16": (-999, 999), "int32": (-(2**31), 2**31), "int64": (-(2**62), 2**62)}


def whole(dtype: str) -> str:
    low, high = TYPES[dtype]
    return f"torch.randint({low}, {high}, (5, 19), dtype=torch.{dtype})"


VALUES = {
    "sums_of_exponentials": module("torch.logsumexp(x, -1), torch.logsumexp(x, 0)", ROWS),
    "softmaxes": module("F.softmax(x, -1)", ROWS),
    "logarithms_of_softmaxes": module("F.log_softmax(x, -1)", ROWS),
    "running_sums_of_exponentials": module("torch.logcumsumexp(x, -1) * 2", ROWS),
    "less_their_maximum": module("m + torch.log(e.sum(-1, keepdim=True)), m * 2", ROWS, before="m = x.amax(-1, keepdim=True); e = torch.exp(x - m)"),
    "numbers_that_python_takes_for_one": module("torch.atan2(x * -0.0, x) + 3 * torch.atan2(x * 0.0, x), (y + 1) // 2, (y + 1.0) / 2, y == True",
        "torch.randn(5, 19), torch.randint(-5, 5, (5, 19))", "x, y"),
    "sums_of_two_exponentials": module("torch.logaddexp(x, x.flip(1)), torch.logaddexp(x, x)", ROWS),
    "a_query_that_sees_nothing": module(
        "F.softmax(q @ k.transpose(-1, -2) * 0.3 + m, -1) @ v, F.scaled_dot_product_attention(q, k, v, m)",
        f"{HEADS}, torch.cat((torch.zeros(6, 9), torch.full((2, 9), -{INF}), torch.full((1, 9), torch.finfo(torch.float32).min)))",
        "q, k, v, m",
    ),
    "hidden_elements": module("F.softmax(x.masked_fill(x > 1, -torch.inf), -1), y",
        ROWS, before="y = F.cross_entropy(x, torch.arange(10) * 13 % 22 - 1, ignore_index=-1, reduction='none')"),
    "padded_with_infinity": module("F.pad(x * 2, (1, 0), value=-torch.inf).logsumexp(-1)"),
    **{
        f"bits_of_{dtype}": module(
            "x & y, x | 3, x ^ y, ~x, x << 2, x >> 2, (x << 4) >> 4, x >> n, x << n, (x & 15).float() * 0.5",
            f"{whole(dtype)}, {whole(dtype)}, torch.arange(-3, 16).to(torch.{dtype}) * 5",
            "x, y, n",
        )
        for dtype in TYPES
    },
    **{
        f"divisions_of_{dtype}": module(
            "x // 3, x % 3, x // (y | 1), x % (y | 1), torch.div(x, y | 1, rounding_mode='trunc'), torch.fmod(x, y | 1)",
            f"{whole(dtype)}, {whole(dtype)}",
            "x, y",
        )
        for dtype in TYPES
    },
    "none_that_is_shrunk": module(
        "F.threshold(x, 0.1, 20.0) * 2, F.hardshrink(x) * 2, F.softshrink(x) * 2, torch.sign(x) * 2, F.leaky_relu(x) * 2", ROWS
    ),
    "options_beside_the_usual": module(
        "torch.round(x * 3, decimals=1) + 1, torch.rsub(x, y, alpha=2) * 2, x.std(1, correction=1.5) * y[:, 0], x[0, 0].transpose(0, 0) * y",
        "torch.randn(5, 7), torch.randn(5, 7)",
        "x, y",
    ),
    "sizes_by_a_factor": module("F.interpolate(x * 2, scale_factor=1.5, mode='bilinear') + 1, F.interpolate(x * 2, scale_factor=2) + 1",
        "torch.randn(2, 3, 7, 7)"),
    "divisions_of_floats": module(
        "x // y, x % y, torch.fmod(x, y), x % -0.3, (x * 1e6) % y",
        f"torch.cat((torch.randn(4, 19) * 9, torch.full((1, 19), {INF}))), torch.randn(5, 19).round() / 4",
        "x, y",
    ),
    "looked_up_twice": module(
        "self.w[t[y]] * 2, F.embedding(t[y], self.w).gather(-1, z), self.w.index_select(0, y).take_along_dim(z, 1)",
        "torch.randint(0, 9, (20,)), torch.randint(0, 9, (4,)), torch.randint(0, 6, (4, 3))",
        "t, y, z",
        "self.w = nn.Parameter(torch.randn(9, 6))",
    ),
    "places_from_the_end": module("x[:, y][:, z] * 2", "torch.randn(4, 9), torch.tensor([-1, 3, -9]), torch.tensor([-2, 0, 1, -3])", "x, y, z"),
}  # fmt: skip
