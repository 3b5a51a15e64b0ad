"""Every line of a call graph runs as it stands: functions of one element by our kernel, the rest by torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CHECK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, torch
import torch.nn.functional as F
from triton_interpreted import stand_in
stand_in()
from bottega.compiler.library.index import kernel_library
from bottega.compiler.library.triton import elementwise
torch.manual_seed(0)
x = torch.cat([torch.randn(70) * 4, torch.tensor([0.0, float("nan"), float("inf"), -float("inf"), 30.0, -30.0])]).reshape(4, 19)
wide = torch.randn(19, 8).t()
errors = {}
for name, options in {
    "relu": {}, "leaky_relu": {"negative_slope": 0.2}, "elu": {"alpha": 0.7}, "selu": {}, "silu": {}, "mish": {}, "softsign": {},
    "hardsigmoid": {}, "hardswish": {}, "softplus": {"beta": 2.0, "threshold": 5.0}, "hardtanh": {"min_val": -2.0, "max_val": 0.5},
    "relu6": {}, "gelu": {"approximate": "tanh"},
}.items():
    for given in (x, wide):
        with torch.no_grad():
            got, want = getattr(elementwise, name)(given, **options), getattr(F, name)(given.double(), **options)
        same = torch.allclose(got.double(), want, rtol=2e-5, atol=1e-6, equal_nan=True)
        if not same or not got.is_contiguous():
            errors[name] = str((got.double() - want).abs().max())
for name in ("sigmoid", "tanh"):
    if not torch.allclose(getattr(elementwise, name)(x), getattr(torch, name)(x), rtol=2e-5, atol=1e-6, equal_nan=True):
        errors[name] = "differs"
lines, library = {}, kernel_library()
exec(library.source_of([name for name in library.offered() if not library.is_own(name)]), lines)
a, b = torch.randn(3, 4), torch.randn(4)
for name, args, want in (
    ("add", (a, b), a + b), ("sub", (1, a), 1 - a), ("mul", (a, 0.5), a * 0.5), ("div", (1, a), 1 / a), ("mean", (a, 1, True), a.mean(1, True)),
    ("clamp", (a, -0.5, 0.5), a.clamp(-0.5, 0.5)), ("flip", (a, 1), a.flip(1)), ("masked_fill", (a, a > 0, 2.0), a.masked_fill(a > 0, 2.0)),
    ("permute", (a, 1, 0), a.permute(1, 0)), ("normalize", (a,), F.normalize(a)),
):
    if not torch.equal(lines[name](*args), want):
        errors[name] = "differs"
print(json.dumps(errors))
"""


@pytest.mark.slow
def test_lines_of_a_call_graph_compute_what_torch_does() -> None:
    pytest.importorskip("triton")
    folder = os.path.join(os.path.dirname(__file__), "..")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CHECK, folder], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
