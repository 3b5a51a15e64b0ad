"""Sketches beside the material: drawn once, kept, and still true under other names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_text import graph
from hand_teacher import task

from bottega.compiler.callgraph_recorder import record
from bottega.core.task import Task
from bottega.data import callgraphs
from bottega.data.callgraphs import FILE, callgraphs_of

LAYERS = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.relu = nn.ReLU()

    def forward(self, sigmoid):
        return torch.sigmoid(self.relu(self.linear(sigmoid)))


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_each_is_recorded_once_and_a_torn_line_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task("silu_chain"), task("tanh_chain"), task("silu_chain"), Task("class Model: ...\n"), task("silu_norm")]
    place = tmp_path / FILE
    before = graph("forward(x)\nx 8\nt1 = relu(x) 8\nreturn t1")
    assert before is not None
    whole, torn = (json.dumps({"task": tasks[number].id, "graph": before.to_json()}) for number in (4, 0))
    place.write_text(f"{whole}\n{torn[:-8]}")  # as a killed run leaves it
    found = callgraphs_of(tmp_path, tasks)
    traced = {tasks[0].id: record(tasks[0].source), tasks[1].id: record(tasks[1].source), tasks[3].id: None}
    assert found == {tasks[4].id: before, **traced}
    rows = [json.loads(line) for line in place.read_text().split("\n") if line and line != torn[:-8]]
    assert [row["task"] for row in rows] == [tasks[4].id, tasks[0].id, tasks[1].id, tasks[3].id]
    monkeypatch.setattr(callgraphs, "CallGraphTracer", None)
    assert callgraphs_of(tmp_path, tasks) == found


@pytest.mark.rotates
def test_what_is_no_callgraph_is_recorded_again(tmp_path: Path) -> None:
    one = task("silu_chain")
    (tmp_path / FILE).write_text(json.dumps({"task": one.id, "graph": {"calls": "t1 = silu(x)"}}) + "\n")
    assert callgraphs_of(tmp_path, [one]) == {one.id: record(one.source)}


def test_where_no_sandbox_can_be_had_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(callgraphs.CallGraphTracer):
        def __enter__(self) -> callgraphs.CallGraphTracer:
            self.close()
            return self

    monkeypatch.setattr(callgraphs, "CallGraphTracer", Closed)
    assert callgraphs_of(tmp_path, [task("silu_chain")]) == {} and not (tmp_path / FILE).read_text().strip()
