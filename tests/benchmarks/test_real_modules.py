"""The layers of the benchmark are tasks in both sizes, the compiler has drafts for them, and the table says what was judged."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from module_task import module_task
from real_layers import LAYERS, LIGER
from real_modules import DRAFTS, VERDICTS, _chosen, _judge_all, run, table

from bottega.compiler.step_compiler import StepCompiler
from bottega.core.errors import TaskError
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.tasks.builtin import builtin_files


def test_there_are_enough_layers_and_each_is_a_task_in_all_sizes() -> None:
    assert len(LAYERS) >= 30 and len({layer.name for layer in LAYERS}) == len(LAYERS)
    for layer in LAYERS:
        full, laptop, small = (layer.task(size) for size in ("full", "laptop", "small"))
        assert full.id != small.id != laptop.id
        assert layer.sizes("laptop").keys() == layer.full.keys()


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["llama_rotary", "bert_output"])
def test_the_compiler_has_drafts_for_a_layer(name: str) -> None:
    pytest.importorskip("transformers")
    layer = next(layer for layer in LAYERS if layer.name == name)
    steps = StepCompiler().build(layer.task("small"), "triton").steps
    assert any("bfloat16" in step.candidate.source and "@triton.jit" in step.candidate.source for step in steps)


def test_a_folder_of_tasks_stands_in_the_place_of_layers(tmp_path: Path) -> None:
    for level, count in ((1, 4), (2, 2)):
        (tmp_path / f"level{level}").mkdir()
        for number in range(count):
            (tmp_path / f"level{level}" / f"{number + 1}_relu.py").write_text(module_task("torch.relu(x)"))
    some = _chosen(str(tmp_path), 0, "", "bfloat16")
    assert [one.name for one in some[:4]] == ["level1/1_relu", "level2/1_relu", "level1/2_relu", "level1/3_relu"]
    assert "torch.relu" in some[0].task("full").source


def test_a_peer_has_the_parameters_of_the_layer_that_it_stands_for() -> None:
    pytest.importorskip("transformers")
    for name in LIGER:
        layer = next(layer for layer in LAYERS if layer.name == name)
        assert "class ModelNew" in layer.liger("small")
        compile(layer.liger(), name, "exec")
    assert not LAYERS[-1].liger()


def test_the_table_shows_the_best_draft_and_the_first_error() -> None:
    def verdict(draft: int, outcome: str, point: float | None) -> dict[str, Any]:
        speedup = {} if point is None else {"eager": {"point": 2 * point, "low": point, "high": 3 * point},
                                            "compile": {"point": point, "low": point, "high": point}}  # fmt: skip
        return {"layer": "one", "draft": draft, "technique": f"way {draft}", "outcome": outcome, "correct": point is not None,
                "speedup": speedup, "coverage": {"share": 0.5}, "diagnosis": "too large an error\nmore"}  # fmt: skip

    drafts = [
        {"layer": "one", "drafts": [{}, {}, {}], "refused": ""},
        {"layer": "two", "drafts": [], "refused": "not understood"},
    ]
    peer = verdict(-1, "rejected", 0.65) | {"technique": "Liger-Kernel"}
    lines = list(table(drafts, [verdict(0, "incorrect", None), verdict(1, "faster", 1.1), verdict(2, "faster", 1.3), peer]))
    assert "| one | way 2 | faster | 2.60 | 1.30 |  | 2.00 | 50% | way 0: incorrect: too large an error |" in lines
    assert any("not understood" in line for line in lines)
    assert "1 surely faster" in lines[-1] and "1.30×" in lines[-1]

    by_eager_alone = verdict(0, "faster", 1.2) | {"layer": "two", "speedup": {"eager": {"point": 4.0, "low": 3.0, "high": 5.0}}}
    told = list(table(drafts, [verdict(2, "faster", 1.3), by_eager_alone]))[-2:]
    assert "1 against compile and eager: 1 surely" in told[0] and "1 against eager: 1 surely" in told[1], "never as one figure"


def test_layers_come_in_the_order_of_their_names_and_each_once() -> None:
    pytest.importorskip("transformers")
    assert [layer.name for layer in _chosen("layers", 0, "bert_output,t5_layer_norm,rms_norm,bert_output", "float32")] == [
        "bert_output", "t5_layer_norm", "llama_rms_norm", "gemma3_rms_norm",
    ]  # fmt: skip


def test_the_first_built_in_tasks_are_of_all_levels_and_as_small_as_a_laptop_has_them() -> None:
    tasks = _chosen("builtin", 0, "", "float32")
    assert len({task.name for task in tasks}) == len(builtin_files())
    first = [task.task("laptop") for task in tasks[:10]]
    assert [task.level for task in first].count(1) in (4, 5) and {task.level for task in first} == {1, 2, 3}
    assert all("size:cpu" in task.tags for task in first) and tasks[0].task("full").id != first[0].id
    assert not tasks[0].liger("laptop")


def test_a_layer_is_judged_once_and_one_that_fails_is_tried_again(tmp_path: Path) -> None:
    class Quick:
        """Stands for a judge, whose verdicts take minutes."""

        workers = 1

        def __init__(self) -> None:
            self.asked: list[str] = []

        def judge(self, task: Any, candidate: Any, **_: Any) -> Verdict:
            self.asked.append(task.name)
            if task.name == LAYERS[1].name and len(self.asked) < 4:
                raise TaskError("no memory")
            return Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(1.0, 0.9, 2.0)})

    path, judge = tmp_path / VERDICTS, Quick()
    drafts = {layer.name: [(n, {"technique": "", "source": f"x = {n}"}) for n in range(2)] for layer in LAYERS[:2]}
    for _ in range(2):
        _judge_all(judge, path, LAYERS[:2], drafts, "small", time.monotonic() + 10.0)  # type: ignore[arg-type]
    first, second = LAYERS[0].name, LAYERS[1].name
    assert judge.asked == [first, first, second, second, second]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["layer"], row["draft"]) for row in rows] == [(first, 0), (first, 1), (second, 1), (second, 0)]
    _judge_all(judge, path, LAYERS[2:3], {LAYERS[2].name: drafts[first]}, "small", time.monotonic() - 1.0)  # type: ignore[arg-type]
    assert len(judge.asked) == 5  # no time left


@pytest.mark.rotates
def test_a_layer_is_searched_once_and_its_best_kernel_is_judged_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {
        "device": "cpu",
        "language": "cpp",
        "drafts": 1,
        "only": "star_relu",
        "size": "laptop",
        "tasks": "builtin",
    }
    run(tmp_path, **given, baselines="eager", workers=1, processes=1, compilers=1, seconds=300.0, timeout=60.0, limit=0, part=0, knobs=0,
        dtype="float32")  # fmt: skip
    *_, verdict = [json.loads(line) for line in (tmp_path / VERDICTS).read_text().splitlines()]
    (written,) = [json.loads(line) for line in (tmp_path / DRAFTS).read_text().splitlines()]
    assert verdict["correct"] and verdict["technique"] == written["drafts"][0]["technique"]
    logged, judged = ((tmp_path / name).read_text() for name in ("events.jsonl", VERDICTS))
    assert len(judged.splitlines()) == 1 + verdict["again"], "once more where it could not be told"
    assert f"| {written['layer']} | {verdict['technique']} | {verdict['outcome']} |" in capsys.readouterr().out
    run(tmp_path, **given, baselines="eager", workers=1, processes=1, compilers=1, seconds=300.0, timeout=60.0, limit=0, part=0, knobs=0,
        dtype="float32")  # fmt: skip
    assert (tmp_path / "events.jsonl").read_text() == logged and (tmp_path / VERDICTS).read_text() == judged
