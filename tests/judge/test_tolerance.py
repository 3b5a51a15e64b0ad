"""Limits are ordered as the data types are, and a precision that the user allows never narrows them."""

from __future__ import annotations

import itertools

import pytest

from bottega.judge.tolerance import tolerance


def test_narrower_types_have_wider_limits() -> None:
    limits = [tolerance(dtype, "fp32") for dtype in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")]
    assert [limit.overall for limit in limits] == sorted(limit.overall for limit in limits)
    assert all(one.overall < two.overall and one.element < two.element for one, two in itertools.pairwise(limits))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
def test_allowing_a_precision_only_widens(dtype: str, precision: str) -> None:
    strict, allowed = tolerance(dtype, "fp32"), tolerance(dtype, precision)
    assert allowed.overall >= strict.overall
    assert allowed.element >= strict.element
    assert allowed.slack >= strict.slack


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_double_stays_double(dtype: str) -> None:
    assert tolerance(dtype, "bf16") == tolerance(dtype, "fp32")


def test_fp32_limits_lie_between_summation_order_and_tf32() -> None:
    assert 1e-6 < tolerance("float32", "fp32").overall < 3e-4
