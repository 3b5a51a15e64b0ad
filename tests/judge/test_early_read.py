"""Work that was not joined before a call returned: what is read in stream order is not what is there in the end."""

from __future__ import annotations

import pytest
import torch

from bottega.judge.early_read import LOOKED_AT, EarlyRead


def changed(look: EarlyRead) -> bool:
    look.read_again()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return look.changed()


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (LOOKED_AT - 1,), (LOOKED_AT + 1,), (700, 900), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_outputs_of_any_kind_are_looked_at(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    output = torch.zeros(shape, dtype=dtype)
    look = EarlyRead([output])
    assert not changed(look)
    output.fill_(1)
    assert changed(look)


def test_the_look_is_small() -> None:
    look = EarlyRead([torch.zeros(1 << 20)])
    assert LOOKED_AT <= look.early.numel() < 2 * LOOKED_AT


def test_not_a_number_equals_itself() -> None:
    assert not changed(EarlyRead([torch.full((100,), float("nan"))]))


def test_a_view_into_a_larger_tensor_is_looked_at_where_it_lies() -> None:
    whole = torch.zeros(10, 40)
    look = EarlyRead([whole[3:5]])
    whole[0].fill_(1)
    assert not changed(look)
    whole[3:5].fill_(1)
    assert changed(look)


def test_every_output_has_its_turn() -> None:
    outputs = [torch.zeros(8), torch.zeros(8)]
    looks = [EarlyRead(outputs) for _ in range(60)]
    outputs[0].fill_(1)
    assert 0 < sum(changed(look) for look in looks) < 60


def test_what_cannot_be_read_so_is_left_alone() -> None:
    odd = [torch.empty(0), torch.zeros(4, 4)[:, ::2], torch.zeros(3, dtype=torch.complex64).conj()]
    assert not changed(EarlyRead(odd))
    assert not changed(EarlyRead([]))


@pytest.mark.gpu
def test_work_on_another_stream_is_seen_unless_it_is_joined() -> None:
    runner, main = torch.cuda.Stream(), torch.cuda.current_stream()
    # The first launch of a kernel loads it, and waits for the device.
    changed(EarlyRead([torch.zeros(1 << 20, device="cuda")]))
    seen = []
    for joined in (False, True):
        output = torch.zeros(1 << 20, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(runner):
            torch.cuda._sleep(20_000_000)
            output.fill_(1)
        if joined:
            main.wait_stream(runner)
        look = EarlyRead([output])
        torch.cuda.synchronize()
        seen.append(changed(look))
    assert seen == [True, False]
