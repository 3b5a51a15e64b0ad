"""Words that are seen when a turn ends: what is written later shows."""

from __future__ import annotations

import torch

from bottega.judge.canary import GLANCES, Glance


def test_what_stays_has_not_changed() -> None:
    region = torch.randint(0, 200, (4096,), dtype=torch.uint8)
    glance = Glance([region])
    glance.strike()
    assert not glance.changed()


def test_what_is_written_later_shows_in_every_region() -> None:
    regions = [torch.zeros(800, dtype=torch.uint8), torch.zeros(96, dtype=torch.uint8)]
    for region in regions:
        glance = Glance(regions)
        glance.strike()
        region.fill_(7)
        assert glance.changed()


def test_places_are_addresses_of_words_inside_the_regions() -> None:
    """So that one kernel can read them all, whichever arena they lie in."""
    region = torch.zeros(1003, dtype=torch.uint8)
    glance = Glance([region])
    addresses = glance.address + 8 * glance.places
    assert addresses.numel() == GLANCES
    assert int(addresses.min()) >= region.data_ptr()
    assert int(addresses.max()) + 8 <= region.data_ptr() + region.numel()


def test_without_a_whole_word_there_is_nothing_to_see() -> None:
    region = torch.zeros(7, dtype=torch.uint8)
    glance = Glance([region])
    glance.strike()
    region.fill_(1)
    assert not glance.changed()
