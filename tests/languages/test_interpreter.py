"""Triton's interpreter as the judge uses it on a CPU: what compiles for a GPU runs there too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

KERNEL = """
from bottega.languages.registry import warm_compilers
warm_compilers()
import torch, triton, triton.language as tl

@triton.jit
def copy_row(x, y, rows, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    keep = (column < width) & (row < rows)
    tl.store(y + row * width + column, tl.load(x + row * width + column, mask=keep), mask=keep)

x = torch.randn(2, 5)
y = torch.zeros(2, 5)
copy_row[(3,)](x, y, 2, 5, BLOCK=8)
assert torch.equal(x, y)
"""


@pytest.mark.rotates
def test_a_comparison_of_scalars_is_a_mask(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
