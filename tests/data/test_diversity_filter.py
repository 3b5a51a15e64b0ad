"""The diversity filter: caps hold, the choice is always the same, breadth does not fall, and shapes are told apart by what they do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hand_teacher import kernel

from bottega.backbone.chat import Message
from bottega.core.errors import UsageError
from bottega.data.breadth import breadth, coverage, report
from bottega.data.diversity import diverse
from bottega.data.example import Example, Kind
from bottega.data.settings import DiversityCaps
from bottega.data.structure import clusters

BASE = Example("write", "first", (), "task", "task", "cpp", 1, "norm", ("add",), "", ("naive",), "faster")


def example(number: int, **changes: object) -> Example:
    said = (Message("user", str(number)), Message("assistant", "kernel"))
    own: dict[str, object] = {"messages": said, "task_id": f"task {number}", "cluster": number, "ops": (f"op{number}",)}
    return replace(BASE, **{**own, **changes})  # type: ignore[arg-type]


def test_caps_hold() -> None:
    crowd = [example(n, ops=("add", f"x{n % 7}"), cluster=n % 5, techniques=(f"t{n % 3}",)) for n in range(400)]
    kept = diverse(crowd, DiversityCaps(task=0, ops=20, technique=30, structure=25, share=1.0))
    assert max(Counter(one.ops for one in kept).values()) <= 20
    assert max(Counter(one.techniques for one in kept).values()) <= 30
    assert max(Counter(one.cluster for one in kept).values()) <= 25
    assert 60 <= len(kept) < len(crowd)


def test_a_task_gives_few_of_a_kind() -> None:
    same = [replace(example(n), task_id="one", ops=("add",)) for n in range(50)]
    assert len(diverse(same, DiversityCaps(task=4))) == 4
    kinds: tuple[Kind, ...] = ("first", "repair")
    both = [replace(one, kind=kind, task_id="one") for kind in kinds for one in same]
    assert Counter(one.kind for one in diverse(both, DiversityCaps(task=4, share=1.0))) == {"first": 4, "repair": 4}


def test_no_value_takes_more_than_its_share() -> None:
    mixed = [example(n, level=1 if n < 190 else 2, outcome="slower" if n % 4 == 0 else "faster") for n in range(200)]
    kept = diverse(mixed, DiversityCaps(share=0.6))
    levels = Counter(one.level for one in kept)
    assert 90 <= levels[1] <= 120 and levels[2] >= 5
    assert diverse([example(n) for n in range(50)], DiversityCaps(share=0.6)) == [example(n) for n in range(50)]


def test_the_choice_does_not_depend_on_the_order() -> None:
    crowd = [example(n, ops=("add",), cluster=n % 5) for n in range(300)]
    one, other = diverse(crowd, DiversityCaps()), diverse(crowd[::-1], DiversityCaps())
    assert {each.id for each in one} == {each.id for each in other} and len(one) == DiversityCaps().ops


def test_breadth_is_told_before_and_after() -> None:
    crowd = [example(n, techniques=("common",), ops=("add",), cluster=0) for n in range(200)]
    crowd += [example(n, techniques=(f"rare{n}",)) for n in range(200, 210)]
    kept = diverse(crowd, DiversityCaps(structure=5, ops=5))
    rows = {row["axis"]: row for row in report(crowd, kept)}
    assert rows["technique"]["after"]["effective"] > rows["technique"]["before"]["effective"]
    assert rows["operators"]["after"]["values"] == rows["operators"]["before"]["values"] == 11
    assert coverage([])["role"].values == 0


def test_an_effective_number_counts_equals() -> None:
    assert breadth(Counter(a=5, b=5, c=5, d=5)).effective == pytest.approx(4)
    assert breadth(Counter(a=1000, b=1)).effective < 1.02


def test_shapes_ignore_names_and_numbers() -> None:
    one = kernel("silu_norm", False, True, 0)
    renamed = one.replace("squares", "total").replace("1e-6f", "1e-5f").replace("features", "width")
    other = kernel("tanh_chain", False, True, 0)
    assert clusters([one, renamed, other, one]) == [0, 0, 1, 0]
    assert clusters([]) == [] and clusters(["def (", "def ("]) == [0, 0]


def test_caps_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="share"):
        DiversityCaps(share=0.0)
    with pytest.raises(UsageError, match="negative"):
        DiversityCaps(ops=-1)
