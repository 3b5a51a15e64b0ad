"""Knobs of a text: which numbers are found, which values are tried, and what counts as the same structure."""

from __future__ import annotations

from unittest.mock import patch

from bottega.compiler.answer_choices import changed
from bottega.compiler.callgraph import Call, CallGraph, Input, NamedTensor
from bottega.compiler.knobs import MOST_PARSED, Knobs, knobs_of

MARKED = '''TILE = 64  # knobs: 32, 64, 128
SOURCE = r"""
constexpr int ROWS = 8;  // knobs: 4 16
#define DEPTH 2  // knob: 2 3
int other = 7;
"""
class ModelNew: pass
'''


def labels(knobs: Knobs) -> dict[str, list[str]]:
    return {place: [change.label for change in changes] for place, changes in knobs.places.items()}


def test_marked_constants_of_python_and_cpp_have_the_values_that_the_text_names() -> None:
    assert labels(knobs_of(MARKED, None)) == {
        "TILE": ["TILE=32", "TILE=128"],
        "ROWS": ["ROWS=4", "ROWS=16"],
        "DEPTH": ["DEPTH=3"],
    }


def test_a_setting_changes_its_number_and_nothing_else() -> None:
    knobs = knobs_of(MARKED, None)
    (one,) = [change for change in knobs.places["ROWS"] if change.label == "ROWS=16"]
    (two,) = [change for change in knobs.places["TILE"] if change.label == "TILE=128"]
    assert changed(MARKED, [one, two]) == MARKED.replace("ROWS = 8", "ROWS = 16").replace("TILE = 64", "TILE = 128")


def test_named_constants_without_a_mark_get_their_neighbours() -> None:
    text = "kernel[grid](x, BLOCK=256, num_warps=4)\nkernel[grid](y, BLOCK=256, num_stages=2)\nBLOCK_SIZE = 100\n"
    found = labels(knobs_of(text, None))
    assert found == {
        "BLOCK": ["BLOCK=512", "BLOCK=128", "BLOCK=1024", "BLOCK=64"],
        "num_warps": ["num_warps=8", "num_warps=2", "num_warps=16", "num_warps=1"],
        "num_stages": ["num_stages=3", "num_stages=1", "num_stages=4"],
    }
    both = changed(text, knobs_of(text, None).places["BLOCK"][:1])
    assert both.count("BLOCK=512") == 2 and "BLOCK=256" not in both


def test_choices_of_library_calls_and_launches_are_knobs_and_no_number_is_two_knobs() -> None:
    text = (
        "def forward(self, x):\n    t1 = linear(x, self.w)\n    k[(triton.cdiv(n, 1024),)](t1, n, BLOCK=1024)\n    TILE = 32\n"
    )
    x, w, t1 = NamedTensor("x", (64, 32)), NamedTensor("self.w", (16, 32)), NamedTensor("t1", (64, 16))
    graph = CallGraph((Input("x", (x,)),), (w,), (Call("linear", (), (t1,)),), "t1")
    found = labels(knobs_of(text, graph))
    assert set(found) == {"linear 64x32 16x32", "elements", "TILE"}
    assert "own=False" in found["linear 64x32 16x32"]
    assert set(labels(knobs_of(text, None))) == {"BLOCK", "TILE"}


def test_structure_is_what_stays_when_knobs_are_turned() -> None:
    turned = MARKED.replace("TILE = 64", "TILE = 128").replace("ROWS = 8", "ROWS = 4")
    assert knobs_of(MARKED, None).structure == knobs_of(turned, None).structure
    assert knobs_of(MARKED, None).structure != knobs_of(MARKED.replace("other = 7", "other = 8"), None).structure


def test_a_budget_takes_all_places_in_turn() -> None:
    settings = knobs_of(MARKED, None).settings(4)
    assert [change.label for change in settings] == ["TILE=32", "ROWS=4", "DEPTH=3", "TILE=128"]


def test_a_text_without_knobs_has_none() -> None:
    assert not knobs_of("class ModelNew:\n    size = 64\n", None).places


def test_a_text_of_knobs_alone_is_read_in_bounded_work_and_a_number_is_one_only_while_it_is_short() -> None:
    many = "".join(f"BLOCK{number} = 64\n" for number in range(4000))
    with patch("bottega.compiler.knobs._parses", return_value=True) as parses:
        knobs_of(many, None)
    assert 0 < parses.call_count * len(many) <= MOST_PARSED
    digits = "9" * 5000
    assert not knobs_of(f"BLOCK = {digits}\nTILE = 4  # knobs: {digits}\nA = {digits}  # knobs: 1 2\n", None).places
