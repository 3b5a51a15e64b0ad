"""The language of a candidate is read from its text, as a hint; its id is its text and nothing else."""

from __future__ import annotations

import pytest

from bottega.core.candidate import Candidate
from bottega.languages import candidate_from, detect_language


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("import torch\nclass ModelNew: pass", "torch"),
        ("", "torch"),
        ("import triton\nimport triton.language as tl", "triton"),
        ("from triton import jit\n@jit\ndef kernel(): pass", "triton"),
        ("@triton.autotune(configs=[], key=[])\n@triton.jit\ndef kernel(): pass", "triton"),
        ("from bottega.runtime import cpp\n", "cpp"),
        ("from bottega.runtime import CompileError, cpp\n", "cpp"),
        ("from bottega import runtime\nlibrary = runtime.cpp('')", "cpp"),
        ('text = r"""#include <cmath>\nextern "C" void f(float* x) {}"""', "cpp"),
        ("load_inline(name='x', cpp_sources=a)", "cpp"),
        ("load_inline(name='x', cpp_sources=a, cuda_sources=b)", "cuda"),
        ("from bottega.runtime import cuda\n", "cuda"),
        ("from bottega.runtime import cpp, cuda\n", "cuda"),
        ('text = "__global__ void f(float* x) {}"', "cuda"),
        ("from cuda.core import Program", "cuda"),
    ],
)
def test_language_is_detected(source: str, language: str) -> None:
    assert detect_language(source) == language
    assert candidate_from(source).language == language


def test_moving_to_the_gpu_is_not_a_cuda_kernel() -> None:
    assert detect_language("class ModelNew:\n    def forward(self, x):\n        return torch.relu(x.cuda())") == "torch"


def test_id_is_of_the_text_alone() -> None:
    one = candidate_from("class ModelNew: pass", name="a", parent="p")
    assert one.id == Candidate("class ModelNew: pass", "triton", "b").id
    assert one.id != candidate_from("class ModelNew: pass ").id
    assert one.parent == "p"


def test_text_that_is_no_unicode_has_an_id() -> None:
    assert len(candidate_from("x = '\ud800'").id) == 16
