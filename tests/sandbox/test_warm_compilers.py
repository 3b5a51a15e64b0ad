"""What the fork server makes ready before it forks: it must leave one thread, no device and no trace in the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

WARMING = """
import os
from bottega.sandbox import compilers
try:
    with compilers._cache_in(os.environ["FOLDER"]):
        compilers._warm_triton()
except AssertionError as error:
    assert "libcuda" in str(error), error  # without a driver, what compiles kernels is ready all the same
import triton.compiler.compiler
print(len(os.listdir("/proc/self/task")), "TRITON_CACHE_DIR" in os.environ, len(os.listdir(os.environ["FOLDER"])) > 0)
"""


@pytest.mark.slow
def test_warming_leaves_one_thread_and_the_environment_as_it_was(tmp_path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
    done = subprocess.run(
        [sys.executable, "-c", WARMING],
        env={**kept, "FOLDER": str(tmp_path), "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["1", "False", "True"]
