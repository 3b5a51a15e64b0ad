"""What a task returns for a call: positional, by name, or both, as far as the signature takes it so."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from bottega.core.arguments import read_arguments


def plain(x: Any, y: Any = 0) -> None: ...
def named(x: Any, *, scale: Any = 1) -> None: ...
def one(batch: Any) -> None: ...
def two(layers: Any, options: Any) -> None: ...
def open_ended(x: Any, **options: Any) -> None: ...
def many(*xs: Any) -> None: ...


class Bare(nn.Module):
    pass


class Built(nn.Module):
    def __init__(self, width: int, *, bias: bool = True) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("returned", "function", "positional", "keywords"),
    [
        ([1, 2], plain, (1, 2), {}),
        ((1, 2), plain, (1, 2), {}),
        (1, plain, (1,), {}),
        ([], plain, (), {}),
        ({"x": 1}, plain, (1,), {}),
        ({"y": 2, "x": 1}, plain, (1, 2), {}),
        ({"x": 1, "scale": 2}, named, (1,), {"scale": 2}),
        ([[1], {"scale": 2}], named, (1,), {"scale": 2}),
        (((1,), {"scale": 2}), named, (1,), {"scale": 2}),
        (([], {"x": 1}), named, (1,), {}),
        ({"a": 1}, one, ({"a": 1},), {}),
        ({"batch": 1}, one, (1,), {}),
        ([{"a": 1}], one, ({"a": 1},), {}),
        ({1: 2}, one, ({1: 2},), {}),
        ([[3, 4], {"a": 1}], two, ([3, 4], {"a": 1}), {}),
        ({"x": 1, "more": 2}, open_ended, (1,), {"more": 2}),
        ([1, 2, 3], many, (1, 2, 3), {}),
        ([[], {}], Bare, (), {}),
        ([], Bare, (), {}),
        ([[], {"width": 3}], Built, (3,), {}),
        ({"width": 3, "bias": False}, Built, (3,), {"bias": False}),
        ({"x": 1, "unknown": 3}, plain, (), {"x": 1, "unknown": 3}),
        ({"unknown": 3}, two, (), {"unknown": 3}),
        ([1, 2, 3], plain, (1, 2, 3), {}),
    ],
)
def test_arguments_are_read(returned: Any, function: Any, positional: tuple, keywords: dict) -> None:
    assert read_arguments(returned, function) == (positional, keywords)


def test_what_has_no_signature_gets_the_plain_reading() -> None:
    assert read_arguments([1, 2], dict.fromkeys) == ((1, 2), {})
    assert read_arguments({"a": 1}, type) == ((), {"a": 1})
