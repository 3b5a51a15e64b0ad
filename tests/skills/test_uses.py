"""How cards fare in use: each episode counts once, and the uplift is what attempts gained with a card over without."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import in_children

from bottega.core.errors import LibraryError
from bottega.skills.library import Library
from bottega.skills.uses import Scheme, Use, uplift_of

Say = Callable[[Any], None]


def use(episode: str = "run/1", **changes: Any) -> Use:
    schemes = (Scheme(("one", "two"), (0.4, 0.6)), Scheme(("one",), (0.3,)), Scheme((), (0.1, 0.1)))
    return replace(Use(episode, "t" * 16, "norm", "cpu", 3, ("one", "two", "three"), schemes), **changes)


def test_the_uplift_is_the_mean_with_the_card_less_the_mean_without_it() -> None:
    schemes = use().schemes
    assert uplift_of("one", schemes) == pytest.approx((0.4 + 0.6 + 0.3) / 3 - 0.1)
    assert uplift_of("two", schemes) == pytest.approx(0.5 - (0.3 + 0.1 + 0.1) / 3)
    assert uplift_of("three", schemes) is None, "never tried"
    assert uplift_of("one", schemes[:2]) is None, "never left out"
    assert uplift_of("one", (Scheme(("one",), ()), Scheme((), (0.1,)))) is None, "no attempt"


def test_an_episode_is_counted_once(library: Library) -> None:
    assert library.uses.record(use())
    version = library.version
    assert not library.uses.record(use())
    assert not library.uses.record(use(family="other"))
    assert library.version == version
    one, three, two = library.uses.tallies()
    assert (one.skill, one.retrieved, one.selected, one.compared) == ("one", 1, 2, 1)
    assert (two.retrieved, two.selected, two.compared) == (1, 1, 1)
    assert (three.retrieved, three.selected, three.compared, three.uplift, three.error) == (1, 0, 0, None, None)
    assert one.uplift == pytest.approx(1.3 / 3 - 0.1) and one.error is None


def test_the_mean_and_its_error_over_episodes(library: Library) -> None:
    gains = [0.1, 0.3, 0.2, -0.1]
    for number, gain in enumerate(gains):
        library.uses.record(use(str(number), schemes=(Scheme(("one",), (gain,)), Scheme((), (0.0,)))))
    (one,) = library.uses.tallies("one")
    mean = sum(gains) / 4
    spread = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / 3)
    assert (one.compared, one.uplift, one.error) == (4, pytest.approx(mean), pytest.approx(spread / 2))


def test_families_and_devices_are_counted_apart_and_together(library: Library) -> None:
    for number, (family, device) in enumerate([("norm", "cpu"), ("norm", "cuda"), ("scan", "cpu"), ("norm", "cpu")]):
        library.uses.record(use(str(number), family=family, device=device))
    apart = library.uses.tallies("one")
    assert [(tally.family, tally.device, tally.retrieved) for tally in apart] == [
        ("norm", "cpu", 2),
        ("norm", "cuda", 1),
        ("scan", "cpu", 1),
    ]
    together = library.uses.totals()[0]
    assert (together.retrieved, together.selected, together.compared) == (4, 8, 4)
    assert together.uplift == pytest.approx(1.3 / 3 - 0.1)
    assert {tally.skill for tally in library.uses.totals()} == {"one", "two", "three"}
    assert library.uses.tallies("nobody") == [] == library.uses.tallies("")


def test_processes_that_report_the_same_episodes_count_each_once(tmp_path: Path) -> None:
    Library(tmp_path).close()

    def report(say: Say) -> None:
        with Library(tmp_path) as library:
            say(sum(library.uses.record(use(str(number))) for number in range(20)))

    said = in_children(report, report, report)
    assert sum(count for (count,) in said) == 20
    with Library(tmp_path) as library:
        assert library.uses.totals()[0].compared == 20


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_worth_that_is_no_number_does_not_spoil_the_mean(library: Library, value: float) -> None:
    library.uses.record(use("sound"))
    bad = use("bad", schemes=(Scheme(("one",), (value,)), Scheme((), (0.0 if math.isnan(value) else value,))))
    with pytest.raises(LibraryError):
        library.uses.record(bad)
    (one,) = library.uses.tallies("one")
    assert one.compared == 1 and one.uplift is not None and math.isfinite(one.uplift)
    assert library.uses.record(replace(bad, schemes=use().schemes)), "it was not counted, so it can be"


def test_single_uplifts_are_read_from_a_version_on(library: Library) -> None:
    for number in range(4):
        library.uses.record(
            use(str(number), library_version=number, schemes=(Scheme(("one",), (number / 10,)), Scheme((), (0.0,))))
        )
    assert library.uses.uplifts({"one": 0}) == {"one": [0.0, 0.1, 0.2, 0.3]}
    assert library.uses.uplifts({"one": 2, "two": 0}) == {"one": [0.2, 0.3], "two": []}
    assert library.uses.uplifts({}) == {}
