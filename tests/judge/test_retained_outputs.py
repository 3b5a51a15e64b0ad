"""Outputs of an earlier call: what changes in them shows, wherever they are handed over again."""

from __future__ import annotations

import ctypes

import pytest
import torch

from bottega.judge import retained_outputs as module
from bottega.judge.retained_outputs import RetainedOutputs
from bottega.judge.tensor_transport import TensorSpec, lay_out


def delivered(tensors: list[torch.Tensor], shift: int = 0) -> tuple[torch.Tensor, list[TensorSpec]]:
    specs, end = lay_out(tensors, shift)
    base = torch.zeros(end, dtype=torch.uint8)
    for tensor, spec in zip(tensors, specs):
        spec.view(base).copy_(tensor)
    return base, specs


def memory(regions: list[tuple[int, int]]) -> list[bytes]:
    """What the supervisor reads; here in this process."""
    return [ctypes.string_at(address, length) for address, length in regions]


@pytest.mark.parametrize("largest", [module.LARGEST_COPY, 16])
def test_the_same_outputs_elsewhere_are_the_same_and_others_are_not(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(module, "LARGEST_COPY", largest)
    outputs = [torch.randn(33, 7), torch.randint(0, 9, (5,)), torch.zeros(0), torch.zeros(1)]
    kept = RetainedOutputs.of(*delivered(outputs, 512), [])
    assert len(kept.sizes) == 2, "outputs shorter than a word are not looked at"
    assert kept.equals(*delivered(outputs, 2048))
    assert not kept.equals(*delivered([outputs[0] + 1, *outputs[1:]], 2048))
    assert not kept.equals(*delivered(outputs[1:], 512))


def test_one_changed_word_is_found_in_a_runner_s_own_memory() -> None:
    """Because the latest outputs tell where to look."""
    buffer = torch.zeros(1 << 20)
    buffer[5] = 1.0
    kept = RetainedOutputs.of(*delivered([buffer]), [buffer.data_ptr()])
    buffer[5], buffer[777_777] = 0.0, 1.0
    base, specs = delivered([buffer])
    places = kept.places_to_read(base, specs)
    assert not kept.are(places, memory(kept.regions(places)))


def test_memory_of_its_own_stays_what_it_was() -> None:
    first = torch.randn(1000)
    kept = RetainedOutputs.of(*delivered([first], 512), [first.data_ptr()])
    places = kept.places_to_read(*delivered([torch.randn(1000)]))
    assert kept.are(places, memory(kept.regions(places)))
    first.add_(1)
    assert not kept.are(places, memory(kept.regions(places)))


def test_an_output_whose_address_is_not_known_has_none_at_all() -> None:
    outputs = [torch.randn(100), torch.randn(100)]
    assert RetainedOutputs.of(*delivered(outputs), [outputs[0].data_ptr(), 0]).addresses == []
