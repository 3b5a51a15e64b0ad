"""Typed conditions: a card is offered where one operation of the task, and the device, are as it asks, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import PLAIN, admitted, card, data

from bottega.core.device import DeviceFacts
from bottega.core.errors import CardError
from bottega.core.skill import AppliesTo, Skill
from bottega.core.workload import ELEMENTWISE, LAST_AXIS, OTHER_AXIS, PRODUCT, ROW, Operation, Workload
from bottega.skills import retrieve
from bottega.skills.agent_skills import markdown
from bottega.skills.conditions import holds, holds_nowhere, unmet
from bottega.skills.library import Library, content_hash
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import Filter
from bottega.skills.validation import admit_data

H200 = DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 141.0)
A100 = DeviceFacts("cuda", "NVIDIA A100-SXM4-80GB", "sm_80", 108, 80.0)
LINEAR = Operation("linear", PRODUCT, "float32", {"rows": 4096, "columns": 256, "depth": 512, "batch": 1, "bytes": 13_000_000})
SOFTMAX = Operation("softmax", ROW, "bfloat16", {"rows": 4096, "columns": 256, "elements": 4096 * 256}, LAST_AXIS)
HERE = Workload((LINEAR, SOFTMAX), H200)
HOLDING: dict[str, dict[str, Any]] = {
    "nothing is asked": {},
    "an operator": {"operators": ["linear"]},
    "one of two operators": {"operators": ["bmm", "linear"]},
    "a kind": {"kinds": ["row"]},
    "an operator or a kind": {"operators": ["bmm"], "kinds": ["row"]},
    "a data type": {"dtypes": ["bfloat16"]},
    "a layout": {"layouts": [LAST_AXIS]},
    "a range with its size at the low end": {"operators": ["linear"], "sizes": {"columns": [256, 511]}},
    "a range with its size at the high end": {"operators": ["linear"], "sizes": {"columns": [128, 256], "depth": [512, 512]}},
    "bytes": {"kinds": ["product"], "sizes": {"bytes": [1 << 20, 1 << 30]}},
    "the device": {"devices": ["NVIDIA H200"]},
    "its architecture": {"devices": ["sm_90"]},
    "all at once": {"devices": ["H200"], "operators": ["softmax"], "dtypes": ["bfloat16"], "sizes": {"rows": [1, 4096]}},
}
FAILING: dict[str, dict[str, Any]] = {
    "another operator": {"operators": ["bmm"]},
    "another kind": {"kinds": ["convolution"]},
    "another data type": {"dtypes": ["float16"]},
    "a data type of another operation": {"operators": ["linear"], "dtypes": ["bfloat16"]},
    "another layout": {"layouts": [OTHER_AXIS]},
    "a larger size": {"operators": ["linear"], "sizes": {"columns": [257, 511]}},
    "a smaller size": {"operators": ["linear"], "sizes": {"columns": [1, 255]}},
    "one size of two": {"operators": ["linear"], "sizes": {"columns": [256, 256], "depth": [1, 256]}},
    "a size that is not known": {"operators": ["softmax"], "sizes": {"depth": [0, 10**9]}},
    "another device": {"devices": ["NVIDIA A100"]},
    "a name that begins alike": {"devices": ["NVIDIA H20"]},
    "another architecture": {"devices": ["sm_80", "sm_89"]},
}


@pytest.mark.parametrize("asked", HOLDING.values(), ids=HOLDING.keys())
def test_conditions_that_hold(asked: dict[str, Any]) -> None:
    assert unmet(AppliesTo.from_json(asked), HERE) == "" and holds(AppliesTo.from_json(asked), HERE)


@pytest.mark.parametrize("asked", FAILING.values(), ids=FAILING.keys())
def test_conditions_that_do_not_hold_and_say_why(asked: dict[str, Any]) -> None:
    assert unmet(AppliesTo.from_json(asked), HERE) and not holds(AppliesTo.from_json(asked), HERE)


def test_a_model_is_its_name_whatever_follows_it() -> None:
    assert unmet(AppliesTo(devices=("NVIDIA A100",)), Workload((), A100)) == ""


def test_what_cannot_be_known_does_not_hold() -> None:
    """A task without a call graph has no operation of which anything could be shown."""
    assert unmet(AppliesTo(operators=("linear",)), Workload((), H200))
    assert not unmet(AppliesTo(devices=("sm_90",)), Workload((), H200))


# in the library


def offered(library: Library, workload: Workload | None, k: int = 20) -> list[str]:
    only = Filter(workload=None if workload is None else lambda: workload)
    return [hit.skill.name for hit in library.search(query_from_text("cache tiles"), k, only)]


def on(name: str, **asked: Any) -> Skill:
    return admitted(name, devices=("cpu", "cuda"), applies_to=AppliesTo.from_json(asked))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path / "library")
    made.add_many(
        [
            admitted("free"),
            on("for_linear", operators=["linear"]),
            on("for_wide_rows", kinds=["row"], sizes={"columns": [1024, 4096]}),
            on("for_a100", devices=["NVIDIA A100"]),
            on("for_h200", devices=["NVIDIA H200"]),
        ]
    )
    return made


def test_a_card_whose_conditions_do_not_hold_is_not_offered(library: Library) -> None:
    assert {*offered(library, HERE)} == {"free", "for_linear", "for_h200"}
    narrow = Operation("relu", ELEMENTWISE, "float32", {"elements": 64})
    assert {*offered(library, Workload((narrow,), H200))} == {"free", "for_h200"}


def test_the_same_library_offers_another_device_its_own_cards(library: Library) -> None:
    assert {*offered(library, replace(HERE, device=A100))} == {"free", "for_linear", "for_a100"}


def test_without_a_task_nothing_is_checked(library: Library) -> None:
    assert len(offered(library, None)) == 5


def test_cards_that_do_not_apply_take_no_place_of_others(tmp_path: Path) -> None:
    """However many of them score better: the search goes on until it has as many as are wanted."""
    library = Library(tmp_path / "library")
    asked = AppliesTo(operators=("bmm",))
    better = [admitted(f"cache_tiles_{number}", applies_to=asked, intent="Cache tiles of cache tiles.") for number in range(40)]
    library.add_many([*better, *(admitted(f"free_{number}") for number in range(3))])
    assert offered(library, None, 1)[0].startswith("cache_tiles")
    assert sorted(offered(library, HERE, 3)) == ["free_0", "free_1", "free_2"]


def test_the_task_is_looked_at_only_for_cards_with_conditions(tmp_path: Path) -> None:
    library = Library(tmp_path / "library")
    library.add(admitted("free"))

    def never() -> Workload:
        raise AssertionError("no card asks for anything")

    assert [hit.skill.name for hit in library.search(query_from_text("tiles"), 5, Filter(workload=never))] == ["free"]


def test_cards_without_conditions_rank_as_before(tmp_path: Path) -> None:
    library = Library(tmp_path / "library")
    library.add_many([admitted(f"tiles_{number}", tags=("tiling",) * (number % 2 + 1)) for number in range(9)])
    assert offered(library, HERE) == offered(library, None) != []


def test_a_card_whose_conditions_hold_is_found_without_a_word_in_common_behind_those_that_have_one(library: Library) -> None:
    words = query_from_text("linear")
    found = [hit.skill.name for hit in library.search(words, 9, Filter(workload=lambda: HERE))]
    assert found == ["for_linear", "for_h200"]
    assert [hit.skill.name for hit in library.search(words, 9)] == ["for_linear"]


def test_each_card_is_looked_at_once_however_often_the_index_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, looked = Library(tmp_path / "library"), list[AppliesTo]()
    library.add_many([on(f"cache_tiles_{number}", operators=[f"op_{number}"]) for number in range(100)])
    monkeypatch.setattr(retrieve, "holds", lambda asked, given: looked.append(asked) or holds(asked, given))
    assert offered(library, HERE, 1) == [] and len(looked) == len({asked.operators for asked in looked}) == 100


# the card


def test_old_cards_keep_their_text_and_their_hash() -> None:
    text = PLAIN.content()
    assert "applies_to" not in text and text["schema"] == 1
    assert content_hash(admit_data(json.loads(json.dumps(PLAIN.to_json())))) == content_hash(PLAIN)
    assert content_hash(card(applies_to=AppliesTo(dtypes=("float32",)))) != content_hash(card())


def test_a_card_comes_back_as_it_was_written(tmp_path: Path) -> None:
    asked = {"devices": ["NVIDIA H200"], "kinds": ["row"], "layouts": [LAST_AXIS], "sizes": {"columns": [32, 1023]}}
    skill = admit_data(data(schema=3, devices=["cuda"], applies_to=asked))
    assert skill.applies_to == AppliesTo.from_json(asked) and skill.content()["applies_to"] == asked
    library = Library(tmp_path / "library")
    library.add(skill)
    assert library.get(skill.name).applies_to == skill.applies_to and hash(skill) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ["softmax"]}, {"layouts": ["rows"]}, {"sizes": {"width": [1, 2]}}, {"sizes": {"columns": [2, 1]}}, {"sizes": {"columns": [1]}},
        {"sizes": {"columns": [-1, 4]}}, {"sizes": {"columns": "1..4"}}, {"moods": ["good"]}, {"devices": "H200"}, {"devices": ["\x1b[2J"]},
        {"operators": ["relu"] * 17}, {"sizes": {"rows": [0, 2**63]}}, ["row"],
    ],
)  # fmt: skip
def test_conditions_of_another_form_are_refused(wrong: Any) -> None:
    with pytest.raises(CardError, match="applies_to"):
        admit_data(data(applies_to=wrong))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"kinds": ["product"], "layouts": [LAST_AXIS]}, "no layout"),
        ({"operators": ["linear", "relu"], "layouts": [LAST_AXIS]}, "no layout"),
        ({"kinds": ["row"], "sizes": {"depth": [1, 64]}}, "no row has depth"),
        ({"operators": ["max_pool2d"], "sizes": {"channels": [1, 64]}}, "no max_pool2d has channels"),
        ({"sizes": {"depth": [1, 64], "elements": [1, 64]}, "layouts": [LAST_AXIS]}, "no operation has depth"),
        ({"devices": ["sm_90", "NVIDIA H200"]}, "is no cpu"),
        ({"dtypes": ["fp32"]}, "float32"),
    ],
)  # fmt: skip
def test_a_card_that_holds_nowhere_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(CardError, match=told):
        admit_data(data(applies_to=asked))


def test_a_processor_is_no_gpu_and_what_is_neither_may_be_either() -> None:
    for devices, name, fits in (
        ("cuda", "x86_64", False),
        ("cpu", "Neoverse-N1", True),
        ("cpu", "Toy-1", True),
        ("cuda", "Toy-1", True),
    ):
        why = holds_nowhere(AppliesTo(devices=(name,)), [devices])
        assert bool(why) is not fits, (devices, name)
    assert not holds_nowhere(AppliesTo(devices=("sm_90", "x86_64")), ["cpu"]), "one of them will do"


def test_readers_are_told_what_code_checks_where_the_card_has_no_sentence_for_it() -> None:
    asked = AppliesTo(("NVIDIA H200",), ("float32", "bfloat16"), ("max_pool2d",), sizes={"columns": (32, 8191)})
    stated = dict(card(applies_to=asked, conditions=replace(PLAIN.conditions, layout="none", hardware="none")).stated)
    assert stated["layout"] == "Max_pool2d, 32 to 8191 columns." and stated["hardware"] == "NVIDIA H200."
    assert stated["data_types"] == PLAIN.conditions.data_types and stated["pipeline"] == "none"
    page = markdown(card(applies_to=asked))
    assert "- layout: contiguous rows" in page
    assert "- checked by code: Tensors of float32 or bfloat16. Max_pool2d, 32 to 8191 columns. NVIDIA H200." in page
