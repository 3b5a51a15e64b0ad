"""What is expected of a choice: the mean of what it gained at like places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottega.compiler.choice_gains import ChoiceGains, MeasuredChoice, shipped_gains
from bottega.compiler.choice_places import ChoicePlace

ROWS = MeasuredChoice("NVIDIA H200", "float32", "rows", {"rows": 4096, "columns": 512}, "rows_of=1024, warps=4", 1.5)
HERE = ChoicePlace("rows", "rows", {"rows": 4096, "columns": 512})


def expected(
    gains: ChoiceGains,
    place: ChoicePlace = HERE,
    device: str = "NVIDIA H200",
    dtype: str = "float32",
    choice: str = ROWS.choice,
) -> float:
    return gains.expected(device, dtype, place, choice)


def test_a_choice_promises_what_it_gained_the_less_the_more_unlike_the_place() -> None:
    gains = ChoiceGains([ROWS])
    near, far = (expected(gains, replace(HERE, sizes={"rows": 4096, "columns": 512 << more})) for more in (1, 4))
    assert 1.5 > expected(gains) > near > far > 1.0
    assert expected(gains, dtype="bfloat16") < expected(gains)
    assert expected(ChoiceGains([ROWS] * 20)) > expected(gains)


@pytest.mark.parametrize(
    "other", [{"device": "NVIDIA B200"}, {"choice": "warps=8"}, {"place": replace(HERE, function="elements")}]
)
def test_nothing_is_promised_where_nothing_is_known(other: dict[str, object]) -> None:
    assert expected(ChoiceGains([ROWS]), **other) == 1.0  # type: ignore[arg-type]


def test_a_wrong_choice_counts_as_slow_and_like_functions_tell_of_each_other() -> None:
    assert expected(ChoiceGains([replace(ROWS, gain=0.0)])) == pytest.approx(0.5**0.5)
    product = MeasuredChoice("NVIDIA H200", "float32", "linear", {"rows": 64, "columns": 64, "depth": 64}, "splits=4", 2.0)
    assert ChoiceGains([product]).expected("NVIDIA H200", "float32", ChoicePlace("", "bmm", product.sizes), "splits=4") > 1.0  # type: ignore[arg-type]


def test_what_ships_is_read_and_a_copy_learns_alone() -> None:
    before = expected(shipped_gains())
    copy = shipped_gains().copy()
    for _ in range(50):
        copy.add(replace(ROWS, gain=3.0))
    assert expected(copy) > before == expected(shipped_gains())
    assert MeasuredChoice.from_json(ROWS.to_json()) == ROWS
