"""Outputs in a runner's own memory: what is not there yet shows, whatever most of it looks like."""

from __future__ import annotations

import ctypes
from typing import Any, cast

import pytest
import torch

from bottega.judge.output_presence import OutputPresence, claimed_places, scattered_regions
from bottega.sandbox.control import ProcessControl


class HereAndNow:
    """What the supervisor does, in this process."""

    def read_memory(self, regions: list[tuple[int, int]]) -> list[bytes] | None:
        return [ctypes.string_at(address, length) for address, length in regions]


def where(*tensors: torch.Tensor) -> list[Any]:
    return [[tensor.data_ptr(), list(tensor.stride())] for tensor in tensors]


def seen(told: Any, *expected: torch.Tensor) -> OutputPresence:
    return OutputPresence.read(claimed_places(told), expected, cast(ProcessControl, HereAndNow()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_outputs_that_are_there_are_what_comes(dtype: torch.dtype) -> None:
    outputs = [torch.randn(33, 7).to(dtype), torch.zeros(0, 3), torch.tensor(5.0), torch.randn(4, 5).t()]
    assert seen(where(*outputs), *outputs).matches([each.clone() for each in outputs])


def test_another_layout_is_read_by_its_own_strides() -> None:
    mine = torch.randn(64, 32).t()
    assert seen(where(mine), mine.contiguous()).matches([mine.contiguous()])


def test_zeros_are_no_mask_with_few_marks() -> None:
    marks = torch.zeros(1 << 20)
    marks[777_777] = 1.0
    nothing = torch.zeros(1 << 20)
    assert not seen(where(nothing), marks).matches([marks])


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        [[0]],
        [["x", [1]]],
        [["8", [1]]],
        [[8.0, [1]]],
        [[True, [1]]],
        [[8, ["1"]]],
        [[-8, [1]]],
        [[1 << 70, [1]]],
        {"0": 1},
        [[8, [1 << 80]]],
    ],
)
def test_what_makes_no_sense_is_not_there(told: Any) -> None:
    output = torch.randn(8)
    assert not seen(told, output).matches([output])


def test_a_caller_writes_all_over_the_outputs_and_nowhere_else() -> None:
    whole = torch.zeros(1 << 12, 3)
    outputs = [whole[:, 1], torch.zeros(2, 2), torch.zeros(())]
    places = claimed_places(where(*outputs))
    assert places is not None
    for address, length in scattered_regions(places, outputs):
        ctypes.memset(address, 0xFF, length)
    assert float(whole[:, 1].isnan().float().mean()) > 0.2
    assert not whole[:, ::2].isnan().any()
    assert outputs[1].isnan().all() and outputs[2].isnan()
