"""Orders of settings, on made-up tasks of which one setting gains in all."""

from __future__ import annotations

import pytest
from choice_order import (
    DRAWN,
    LEARNED,
    ORACLE,
    RULE,
    SHUFFLED,
    MeasuredTask,
    Setting,
    best_of,
    orders,
    rows_of,
    with_shuffled_gains,
)

from bottega.compiler.choice_gains import ChoiceGains
from bottega.compiler.choice_places import ChoicePlace

NAMES = [f"warps={number}" for number in range(6)]


def task(number: int) -> MeasuredTask:
    place = ChoicePlace("rows", "rows", {"rows": 1024 << number % 3, "columns": 512})
    settings = tuple(Setting(place, name, 1.5 if name == NAMES[-1] else 0.9) for name in NAMES)
    return MeasuredTask(f"task {number}", "float32", False, f"operator{number}", settings)


def test_what_gained_elsewhere_comes_first_and_shuffled_gains_teach_nothing() -> None:
    known = [task(number) for number in range(40)]
    shuffled = with_shuffled_gains(known)
    assert [sorted(one.gain for one in a.settings) for a in shuffled] == [sorted(one.gain for one in a.settings) for a in known]
    found = orders(task(41), ChoiceGains(rows_of(known)), ChoiceGains(rows_of(shuffled)))
    assert best_of(found[LEARNED], 1) == best_of(found[ORACLE], 1) == 1.5
    assert best_of(found[RULE], 5) == 1.0 and best_of(found[RULE], 6) == 1.5
    assert {len(found[name]) for name in (RULE, DRAWN, LEARNED, SHUFFLED, ORACLE)} == {6}
    unlearned = ChoiceGains(rows_of(shuffled))
    promises = [unlearned.expected("NVIDIA H200", "float32", task(41).settings[0].place, name) for name in NAMES]  # type: ignore[arg-type]
    assert max(promises) == pytest.approx(min(promises), rel=0.2)
