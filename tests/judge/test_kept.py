"""Outputs of an earlier call: what changes in them shows, wherever they are handed over again."""

from __future__ import annotations

import torch

from bottega.judge.kept import WORDS, Kept
from bottega.judge.layout import lay_out


def delivered(tensors: list[torch.Tensor], shift: int) -> tuple[torch.Tensor, list]:
    specs, end = lay_out(tensors, shift)
    base = torch.zeros(end, dtype=torch.uint8)
    for tensor, spec in zip(tensors, specs):
        spec.view(base).copy_(tensor)
    return base, specs


def test_the_same_outputs_elsewhere_are_the_same() -> None:
    outputs = [torch.randn(33, 7), torch.randint(0, 9, (5,)), torch.zeros(0), torch.zeros(1)]
    base, specs = delivered(outputs, 512)
    kept = Kept.of(base, specs, [])
    again, there = delivered(outputs, 2048)
    assert len(kept.specs) == 2, "outputs shorter than a word are not looked at"
    assert kept.equals(kept.read(again, [spec for spec in there if spec.extent >= 8]))


def test_a_changed_output_shows() -> None:
    output = torch.randn(1000)
    base, specs = delivered([output], 0)
    kept = Kept.of(base, specs, [])
    changed, there = delivered([output + 1], 0)
    assert not kept.equals(kept.read(changed, there))


def test_words_are_read_where_they_lie_in_a_side_s_own_memory() -> None:
    output = torch.randn(1000)
    base, specs = delivered([output], 512)
    kept = Kept.of(base, specs, [output.data_ptr()])
    regions = kept.regions()
    assert len(regions) == WORDS and all(length == 8 for _, length in regions)

    def read() -> list[bytes]:
        whole = output.numpy().tobytes()
        return [whole[address - output.data_ptr() : address - output.data_ptr() + 8] for address, _ in regions]

    assert kept.equals_bytes(read())
    output.add_(1)
    assert not kept.equals_bytes(read())


def test_an_output_whose_address_is_not_known_has_none_at_all() -> None:
    outputs = [torch.randn(100), torch.randn(100)]
    base, specs = delivered(outputs, 0)
    assert Kept.of(base, specs, [outputs[0].data_ptr(), 0]).addresses == []
