"""Call graphs beside the data: recorded once, kept, and still true under other names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_text import graph
from module_task import module_task

from bottega.compiler.callgraph_recorder import record
from bottega.core.task import Task
from bottega.data import callgraphs
from bottega.data.callgraphs import FILE, callgraphs_of

LAYERS = module_task(
    "torch.sigmoid(self.relu(self.linear(sigmoid)))",
    "torch.randn(4, 8)",
    "sigmoid",
    "self.linear = nn.Linear(8, 8); self.relu = nn.ReLU()",
)
SILU, TANH, NORM = (Task(module_task(body)) for body in ("F.silu(x) * 2", "torch.tanh(x) + 1", "F.normalize(x)"))


@pytest.mark.slow
def test_each_is_recorded_once_and_a_torn_line_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [SILU, TANH, SILU, Task("class Model: ...\n"), NORM]
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
    (tmp_path / FILE).write_text(json.dumps({"task": SILU.id, "graph": {"calls": "t1 = silu(x)"}}) + "\n")
    assert callgraphs_of(tmp_path, [SILU]) == {SILU.id: record(SILU.source)}


def test_where_no_sandbox_can_be_had_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(callgraphs.CallGraphTracer):
        def __enter__(self) -> callgraphs.CallGraphTracer:
            self.close()
            return self

    monkeypatch.setattr(callgraphs, "CallGraphTracer", Closed)
    assert callgraphs_of(tmp_path, [SILU]) == {} and not (tmp_path / FILE).read_text().strip()
