"""Sketches beside the material: drawn once, kept, and still true under other names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hand_teacher import task

from bottega.agents.answers.fences import fenced
from bottega.backbone.chat import Message
from bottega.compiler.callgraph import sketch_of
from bottega.core.task import Task
from bottega.data import callgraphs
from bottega.data.answers import written
from bottega.data.callgraphs import FILE, sketches_of
from bottega.data.example import Example
from bottega.data.renaming import renamed

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
def test_each_is_drawn_once_and_a_torn_line_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task("silu_chain"), task("tanh_chain"), task("silu_chain"), Task("class Model: ...\n"), task("silu_norm")]
    place = tmp_path / FILE
    whole, torn = (json.dumps({"task": tasks[number].id, "sketch": "forward(x)\ndrawn before"}) for number in (4, 0))
    place.write_text(f"{whole}\n{torn[:-8]}")  # as a killed run leaves it
    found = sketches_of(tmp_path, tasks)
    drawn = {tasks[0].id: sketch_of(tasks[0].source), tasks[1].id: sketch_of(tasks[1].source), tasks[3].id: ""}
    assert found == {tasks[4].id: "forward(x)\ndrawn before", **drawn}
    rows = [json.loads(line) for line in place.read_text().split("\n") if line and line != torn[:-8]]
    assert [row["task"] for row in rows] == [tasks[4].id, tasks[0].id, tasks[1].id, tasks[3].id]
    monkeypatch.setattr(callgraphs, "Sketcher", None)
    assert sketches_of(tmp_path, tasks) == found


def test_a_sketch_of_an_older_form_is_drawn_again(tmp_path: Path) -> None:
    one = task("silu_chain")
    (tmp_path / FILE).write_text(json.dumps({"task": one.id, "sketch": "x 8x16\nt1 = silu(x)\nreturn t1"}) + "\n")
    assert sketches_of(tmp_path, [one]) == {one.id: sketch_of(one.source)}


def test_where_no_cell_can_be_had_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(callgraphs.Sketcher):
        def __enter__(self) -> callgraphs.Sketcher:
            self.close()
            return self

    monkeypatch.setattr(callgraphs, "Sketcher", Closed)
    assert sketches_of(tmp_path, [task("silu_chain")]) == {} and not (tmp_path / FILE).read_text().strip()


@pytest.mark.parametrize("seed", range(6))
def test_other_names_leave_the_calls_of_a_sketch_alone(seed: int) -> None:
    kernel = LAYERS[: LAYERS.index("def get_inputs")].replace("Model", "ModelNew")
    said = (
        Message("system", "Write."),
        Message("user", fenced(LAYERS, "python") + "\n\n" + fenced(sketch_of(LAYERS), "")),
        Message("assistant", written(kernel, "", "terse")),
    )
    copy = renamed(Example("write", "first", said, "t", "t", "triton", 1, "matmul", (), "chain", (), "faster"), seed)
    text = (copy.messages if copy is not None else said)[1].content
    assert "t1 = linear(" in text and "t2 = relu(t1)" in text and "t3 = sigmoid(t2)" in text
