"""The folder of large tasks: its counts, its sizes, and that its files are tasks; a part of them is run on fake tensors here, all by --check."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from large_tasks import Written, measured, tasks
from typer.testing import CliRunner

from bottega.tasks.load import load_tasks

pytestmark = pytest.mark.rotates

ALL = list(tasks())
PART = ALL[::9]


def test_as_many_as_the_public_one_and_no_two_alike() -> None:
    assert [sum(each.level == level for each in ALL) for level in (1, 2, 3)] == [100, 100, 50]
    bodies = {ast.dump(ast.parse(each.text.source(each.number))) for each in ALL}
    assert len(bodies) == len({each.path for each in ALL}) == 250


def test_written_the_same_each_time() -> None:
    assert [each.text.source(each.number) for each in tasks()] == [each.text.source(each.number) for each in ALL]


def test_in_several_hands() -> None:
    sources = [each.text.source(each.number) for each in ALL]
    assert 25 < sum("# sizes as a service sees them" in source for source in sources) < 120
    assert 25 < sum("as one module" in source for source in sources) < 120
    assert 25 < sum("-> None" not in source and "as one module" not in source for source in sources) < 120


@pytest.mark.parametrize("each", PART, ids=lambda each: each.path)
def test_runs_on_fake_tensors_at_its_true_shapes(each: Written) -> None:
    taken = measured(each.text.source(each.number))
    assert taken.inputs > 0 and taken.outputs > 0
    assert taken.inputs + taken.outputs < (17e9 if each.level == 1 else 2.5e9)


@pytest.mark.parametrize("each", ALL[4::16], ids=lambda each: each.path)
def test_runs_where_it_is_shrunk(each: Written) -> None:
    small, whole = (measured(each.text.source(each.number, scale)) for scale in (1e-4, 1.0))
    assert small.inputs <= whole.inputs


def test_workspace_is_what_is_alive_beyond_the_rest() -> None:
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        y = x + 1\n        z = y * 2\n"
        "        del y\n        return z.sum()\n\n\ndef get_inputs():\n    return [torch.rand(1000)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    taken = measured(source)
    assert (taken.inputs, taken.outputs, taken.parameters, taken.workspace) == (4000, 4, 0, 8000 - 4)


def test_the_command_writes_a_folder_that_loads(tmp_path: Path) -> None:
    import large_tasks
    import typer

    app = typer.Typer()
    app.command()(large_tasks.main)
    done = CliRunner().invoke(
        app, [str(tmp_path / "t"), "--levels", "1,3", "--only", "softmax", "--scale", "0.0001", "--check"]
    )
    assert done.exit_code == 0, done.output
    loaded = load_tasks([tmp_path / "t"])
    assert not loaded.problems and {task.level for task in loaded.tasks} == {1}
    assert "3 of 3" in done.output
    assert CliRunner().invoke(app, [str(tmp_path / "t"), "--only", "no such"]).exception is not None
