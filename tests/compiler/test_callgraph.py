"""Call graphs: what they print, what can be asked of them, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from graph_text import graph

from bottega.compiler.callgraph import LONGEST, CallGraph, Malformed, from_json, results_in

TEXT = """forward(x, steps, *masks)
x 64x32x32x32
steps = 3
masks[0] 64 bool
masks[1]['deep'] 64
self.conv.weight 128x32x3x3
self.net[0].scale scalar
t1 = conv2d(x, self.conv.weight, padding=1) 64x128x32x32
t2_0, t2_1 = max(t1, dim=1) 64x32x32 64x32x32 int64
t3_0, t3_1 = chunk(t2_0, 2) 32x32x32
t4 = index(t3_1, (:, masks[0], t2_1)) 32x32 bfloat16
t5 = mul_(t4, self.net[0].scale) scalar
return {'loss': t5, 'kept': (t4, t3_0)}"""


def made() -> CallGraph:
    found = graph(TEXT)
    assert found is not None
    return found


def test_a_callgraph_prints_what_it_holds() -> None:
    assert made().text == TEXT


def test_calls_by_the_names_of_their_results() -> None:
    found = made()
    assert found.by_result["t2_0"] is found.by_result["t2_1"] and "x" not in found.by_result


def test_a_call_has_its_text_and_what_it_reads() -> None:
    calls = made().by_result
    assert (calls["t2_1"].text, calls["t2_1"].line) == ("max(t1, dim=1)", "t2_0, t2_1 = max(t1, dim=1)")
    assert calls["t4"].reads == ["t3_1", "t2_1"] and calls["t5"].shape == ()


def test_it_survives_the_way_through_json() -> None:
    assert from_json(json.loads(json.dumps(made().to_json()))) == made()


@pytest.mark.parametrize(
    "change",
    [
        {"calls": "forged"},
        {"returned": "t1\nreturn t2"},
        {"returned": "x" * (LONGEST + 1)},
        {"weights": [{"name": "self.w", "shape": [10**18], "dtype": "float32"}]},
        {"weights": [{"name": "self.w", "shape": ["3"], "dtype": "float32"}]},
        {"calls": [{"operator": "relu", "arguments": [], "results": []}]},
        {"calls": [{"operator": "re lu", "arguments": [], "results": [{"name": "t1", "shape": [], "dtype": "float32"}]}]},
        {"calls": [{"operator": "relu", "arguments": [], "results": [{"name": "x", "shape": [], "dtype": "float32"}]}]},
    ],
)
def test_what_a_sandbox_forges_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        from_json({**made().to_json(), **change})


@pytest.mark.parametrize("data", [None, 3, "forged", [], {}])
def test_other_data_is_no_callgraph(data: Any) -> None:
    with pytest.raises(Malformed):
        from_json(data)


def test_results_are_the_names_of_calls_and_not_of_weights_or_keys() -> None:
    assert results_in("add(t1, self.t2, t3_0, t4_mask, x.t5) + t1") == ["t1", "t3_0", "t1"]
