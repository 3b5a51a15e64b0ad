"""Outputs that share an element, told from views of one buffer that only lie between each other's elements."""

from __future__ import annotations

import itertools

import pytest
import torch

from bottega.judge.output_overlap import TensorPlace, any_overlap

BUFFER = torch.empty(6, 8, 10)


def places(*tensors: torch.Tensor) -> list[TensorPlace]:
    return [TensorPlace(t.data_ptr(), tuple(t.shape), tuple(t.stride()), t.dtype.itemsize) for t in tensors]


@pytest.mark.parametrize(
    ("name", "tensors", "shared"),
    [
        ("apart", (torch.empty(8), torch.empty(8)), False),
        ("one twice", (BUFFER, BUFFER), True),
        ("three parts of a last axis", BUFFER.split((3, 3, 4), -1), False),
        ("parts with a common column", (BUFFER[..., :4], BUFFER[..., 3:]), True),
        ("halves", (BUFFER[:3], BUFFER[3:]), False),
        ("every other one", (BUFFER[..., ::2], BUFFER[..., 1::2]), False),
        ("every third and every other one", (BUFFER[..., ::3], BUFFER[..., ::2]), True),
        ("a transposed one", (BUFFER, BUFFER.transpose(0, 2)), True),
        ("a row that is expanded", (torch.empty(1, 8).expand(4, 8), torch.empty(8)), False),
        ("one row of it", (BUFFER[2].expand(4, 8, 10), BUFFER[2, 3]), True),
        ("nothing", (BUFFER, BUFFER[:0]), False),
        ("a part as bytes", (BUFFER, BUFFER[1].view(torch.uint8)), True),
        ("the last of one and the first of the other", (BUFFER[:3], BUFFER.view(-1)[239:245]), True),
    ],
)
def test_elements_that_are_shared(name: str, tensors: tuple[torch.Tensor, ...], shared: bool) -> None:
    assert any_overlap(places(*tensors)) is shared


def test_as_a_count_of_elements_says() -> None:
    memory = torch.arange(400)
    views = [
        memory.as_strided(shape, stride, offset)
        for shape, stride in [((3, 4), (40, 3)), ((4, 3), (7, 50)), ((2, 5), (100, 2)), ((6,), (13,)), ((2, 2, 3), (90, 31, 5))]
        for offset in (0, 1, 2, 17)
    ]
    for one, two in itertools.combinations(views, 2):
        expected = bool(set(one.flatten().tolist()) & set(two.flatten().tolist()))
        assert any_overlap(places(one, two)) is expected, (one.shape, one.stride(), two.stride())


def test_what_a_hostile_process_says_takes_no_time() -> None:
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
    tangled = [TensorPlace(at, (9,) * 10, tuple(p * 8191 for p in primes), 1) for at in range(64)]
    any_overlap([*tangled, TensorPlace(1 << 62, (1 << 40,), (1 << 40,), 4), TensorPlace(1, (1 << 60,), (1,), 4)])


def test_two_of_hundreds_that_share_memory_are_found() -> None:
    parts = list(torch.empty(300, 8))
    assert not any_overlap(places(*parts))
    assert any_overlap(places(*parts, parts[299]))
    assert not any_overlap(places(*torch.empty(64, 100).unbind(1))), "columns, each of which lies between all others"
