"""Small modules over every kind of kernel, as tasks: odd sizes, broadcasts, slices, single dimensions, narrow and whole numbers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for a process that runs a file of this folder alone

from module_task import module_task as module

QUICK = {
    "gelu": module("F.gelu(x + y)", "torch.randn(5, 131) * 4, torch.randn(131)", "x, y"),
    "whole": module("(x // 3 + x % 4 - y) * 2", "torch.randint(-20, 20, (5, 7)), torch.randint(0, 9, (5, 1))", "x, y"),
    "slices": module("x[:, 2:9] * x[:, 1:8] + x[:, ::2][:, :7]", "torch.randn(4, 20)"),
    "bfloat16": module("F.softmax(x, dim=-1)", "torch.randn(7, 333).bfloat16()"),
    "across": module("F.softmax(x, dim=1)", "torch.randn(6, 33, 17) * 5"),
    "both": module("torch.max(x, dim=-1)", "torch.randn(5, 67)"),
    "group_norm": module("F.relu(self.n(x)) + x", "torch.randn(3, 12, 9, 5)", init="self.n = nn.GroupNorm(4, 12)"),
    "linear": module("F.gelu(self.f(x))", "torch.randn(37, 50)", init="self.f = nn.Linear(50, 43)"),
    "strided": module(
        "F.relu(self.c(x))", "torch.randn(2, 4, 21, 23)", init="self.c = nn.Conv2d(4, 8, 3, padding=1, stride=2)"
    ),
    "recurrent": module("F.relu(self.g(x)[0]) + 1", "torch.randn(3, 5, 4)", init="self.g = nn.LSTM(4, 6, batch_first=True)"),
    "pool": module("F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "torch.randn(2, 3, 15, 23)"),
    "scan": module("torch.cumsum(x * 2, dim=1) / 3", "torch.randn(5, 33, 20)"),
    "scan of logs": module("torch.logcumsumexp(x * 9, dim=1) + 1", "torch.randn(5, 33, 20)"),
    "attention": module(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "torch.randn(3, 3, 37, 16), torch.randn(3, 3, 37, 16), torch.randn(3, 3, 37, 16)",
        "q, k, v",
    ),
}
_ACTIVATIONS = "silu mish softplus elu selu hardswish hardsigmoid tanh sigmoid relu6 leaky_relu logsigmoid softsign celu"
_POSITIVE = "log sqrt rsqrt log1p log2 reciprocal"
_FUNCTIONS = "exp sin cos tan atan sinh cosh erf expm1 floor ceil round trunc sign abs neg square exp2 asinh"
_CONVOLUTIONS = {
    "nn.Conv2d(5, 7, 3)": "2, 5, 13, 19",
    "nn.Conv2d(6, 8, (3, 5), padding=(1, 2), dilation=2, groups=2)": "2, 6, 21, 23",
    "nn.Conv2d(5, 7, 1)": "9, 5, 13, 19",
    "nn.Conv2d(6, 6, 5, padding=2, stride=2, groups=6)": "2, 6, 33, 37",
    "nn.Conv2d(6, 12, 3, padding=1, groups=6)": "2, 6, 13, 19",
    "nn.Conv2d(1, 7, 3, padding=1)": "2, 1, 13, 19",
    "nn.Conv1d(5, 7, 3, stride=3, padding=1)": "3, 5, 41",
    "nn.Conv3d(3, 5, 3, padding=1)": "2, 3, 6, 7, 19",
    "nn.ConvTranspose1d(5, 7, 4, stride=2, padding=1)": "3, 5, 21",
    "nn.ConvTranspose2d(5, 7, 3, stride=2, padding=1, output_padding=1)": "2, 5, 11, 13",
    "nn.ConvTranspose2d(4, 6, 3, padding=1, groups=2)": "2, 4, 11, 13",
    "nn.ConvTranspose2d(4, 6, 3, stride=3, dilation=2)": "2, 4, 11, 13",
}
_POOLS = {
    "F.max_pool2d(x, 3, 2, 1, 2)": "2, 3, 25, 33",
    "F.avg_pool2d(x, 3, 2, 1, True, True)": "2, 3, 16, 24",
    "F.avg_pool2d(x, 3, 2, 1, True, False)": "2, 3, 16, 24",
    "F.avg_pool2d(x, 2, divisor_override=3)": "2, 3, 16, 24",
    "F.max_pool1d(x, 3, 2, 1)": "2, 3, 33",
    "F.max_pool1d(x, 4, 3, 2, 3, ceil_mode=True)": "2, 3, 53",
    "F.avg_pool3d(x, (3, 2, 3), (2, 2, 1), (1, 0, 1), True, False)": "2, 3, 9, 11, 7",
    "F.avg_pool3d(x, 2, ceil_mode=True)": "2, 3, 5, 7, 9",
    "F.avg_pool3d(x, 3, 2, 1, count_include_pad=False)": "2, 3, 6, 8, 22",
}
_ROWS = {
    "x.sum()": "7, 33",
    "x.mean(dim=0)": "4000, 33",
    "x.sum(dim=(0, 2))": "5, 7, 33",
    "x.argmax(dim=1)": "5, 67, 9",
    "x.argmax()": "5, 67",
    "x.prod(dim=1)": "5, 6, 9",
    "(x > 2).any(dim=1)": "5, 16",
    "x.var(dim=1)": "5, 67",
    "x.std(dim=0)": "50, 67",
    "torch.logsumexp(x, dim=1)": "5, 67, 20",
    "F.softmax(x, dim=-1)": "2, 70000",
    "F.normalize(x, dim=1)": "3, 40, 15",
    "(x.mean(dim=1, keepdim=True) + x).relu()": "4, 1, 9",
    "torch.cumsum(x, dim=-1)": "2, 70001",
    "torch.cumprod(x, dim=-1)": "5, 20",
    "torch.logcumsumexp(x, dim=-1)": "3, 70001",
}
SWEEP = {
    **{name: module(f"F.{name}(x)", "torch.randn(5, 131) * 4") for name in _ACTIVATIONS.split()},
    **{name: module(f"torch.{name}(x)", "torch.rand(3, 5, 7) * 3 + 0.1") for name in _POSITIVE.split()},
    **{name: module(f"torch.{name}(x)", "torch.randn(3, 5, 7) * 3") for name in _FUNCTIONS.split()},
    **{
        text: module("F.relu(self.c(x))", f"torch.randn({shape})", init=f"self.c = {text}")
        for text, shape in _CONVOLUTIONS.items()
    },
    **{text: module(f"{text} * 2 + 1", f"torch.randn({shape})") for text, shape in _POOLS.items()},
    **{text: module(text, f"torch.randn({shape})") for text, shape in _ROWS.items()},
    "batched": module("torch.bmm(x, y)", "torch.randn(9, 37, 20), torch.randn(9, 20, 41)", "x, y"),
    "transposed": module("x.t() @ y + 1", "torch.randn(50, 37), torch.randn(50, 41)", "x, y"),
    "few rows": module("F.relu(self.f(x))", "torch.randn(3, 50)", init="self.f = nn.Linear(50, 43)"),
    "double": module("torch.tanh(x) * 2", "torch.randn(5, 33).double()"),
    "half": module("F.gelu(x) + 1", "torch.randn(5, 33).half()"),
    "losses": module("F.cross_entropy(x, y)", "torch.randn(13, 40), torch.randint(0, 40, (13,))", "x, y"),
    "masked": module(
        "F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
        "torch.randn(1, 3, 17, 8), torch.randn(1, 3, 21, 8), torch.randn(1, 3, 21, 12), torch.randn(17, 21)",
        "q, k, v, m",
    ),
}
