"""Work that was not joined before a call returned: what is read in stream order is not what is there in the end."""

from __future__ import annotations

import pytest
import torch

from bottega.judge.early_read import LOOKED_AT, EarlyLook


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (LOOKED_AT - 1,), (LOOKED_AT + 1,), (700, 900), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_outputs_of_any_kind_are_looked_at(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    output = torch.zeros(shape, dtype=dtype)
    look = EarlyLook([output])
    assert not look.changed()
    output.fill_(1)
    assert look.changed()


def test_the_look_is_small() -> None:
    look = EarlyLook([torch.zeros(1 << 20)])
    assert LOOKED_AT <= look.early.numel() < 2 * LOOKED_AT


def test_not_a_number_equals_itself() -> None:
    assert not EarlyLook([torch.full((100,), float("nan"))]).changed()


def test_a_view_into_a_larger_tensor_is_looked_at_where_it_lies() -> None:
    whole = torch.zeros(10, 40)
    look = EarlyLook([whole[3:5]])
    whole[0].fill_(1)
    assert not look.changed()
    whole[3:5].fill_(1)
    assert look.changed()


def test_every_output_has_its_turn() -> None:
    outputs = [torch.zeros(8), torch.zeros(8)]
    looks = [EarlyLook(outputs) for _ in range(60)]
    outputs[0].fill_(1)
    assert 0 < sum(look.changed() for look in looks) < 60


def test_what_cannot_be_read_so_is_left_alone() -> None:
    odd = [torch.empty(0), torch.zeros(4, 4)[:, ::2], torch.zeros(3, dtype=torch.complex64).conj()]
    assert not EarlyLook(odd).changed()
    assert not EarlyLook([]).changed()


@pytest.mark.gpu
def test_work_on_another_stream_is_seen_unless_it_is_joined() -> None:
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    # The first launch of a kernel loads it, and waits for the device.
    EarlyLook([torch.zeros(1 << 20, device="cuda")]).changed()
    seen = []
    for joined in (False, True):
        output = torch.zeros(1 << 20, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            output.fill_(1)
        if joined:
            main.wait_stream(side)
        look = EarlyLook([output])
        torch.cuda.synchronize()
        seen.append(look.changed())
    assert seen == [True, False]
