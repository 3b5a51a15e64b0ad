"""How a kernel is written: whoever has the call graph before it need only copy, and what is copied computes what the task does."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import executed
from network_tasks import NETWORKS
from small_tasks import SMALL
from triton_process import interpreted

from bottega.compiler import trace
from bottega.compiler.build_step import BuildSteps
from bottega.compiler.callgraph_recorder import record
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.lowering.lower import KNOWN
from bottega.compiler.planner_passes import LIBRARY_FUNCTIONS
from bottega.compiler.step_compiler import StepCompiler
from bottega.core.task import Task
from bottega.tasks.load import load_tasks

HERE = Path(__file__).parent
NAMED = ("star_relu", "rms_norm_rows", "softmax_over_positions", "dilated_max_pool", "cumsum_over_time", "weighted_bce_rows")
ROOM = re.compile(r"torch\.empty\(\((.*?),?\), device=")
CALL = re.compile(r"^(t\d+) = (\w+)\(.*\) ([\dx]+|scalar)$", re.MULTILINE)
LIMIT = 5e-6


@cache
def built_in(name: str) -> Task:
    (found,) = load_tasks([f"builtin:{name}"], size="cpu").tasks
    return found


@cache
def course(name: str, language: str, seed: int = 0) -> BuildSteps:
    return StepCompiler().build(built_in(name), language, seed=seed)


def assigned(source: str) -> dict[str, str]:
    """What `forward` of `ModelNew` gives names to, with the right sides."""
    (model,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]
    (forward,) = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    lines = [node for node in ast.walk(forward) if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in lines}


@pytest.mark.rotates
@pytest.mark.parametrize("language", ["cpp", "triton"])
@pytest.mark.parametrize("name", NAMED)
def test_results_have_the_call_graphs_names_and_numbers(name: str, language: str) -> None:
    graph = record(built_in(name).source).text
    shapes = {call: shape for call, _, shape in CALL.findall(graph)}
    steps = course(name, language).steps
    for step in steps:
        rooms = {result: ROOM.match(text) for result, text in assigned(step.candidate.source).items()}
        made = {result: room[1].replace(", ", "x") for result, room in rooms.items() if room}
        assert (made or step.technique == LIBRARY_FUNCTIONS.name) and made == {result: shapes[result] for result in made}
        assert f"return {graph.rpartition('return ')[2]}" in step.candidate.source
    # Without techniques every call of the call graph is a kernel of its own.
    assert set(shapes) <= set(assigned(steps[0].candidate.source))


def test_what_the_library_makes_has_the_call_graphs_name_too() -> None:
    given = next(one for one in SMALL if one.name == "linear_tail")
    (linear, *_), last = CALL.findall(record(given.source).text), record(given.source).text.rpartition("return ")[2]
    for language in ("cpp", "triton"):
        source = (
            StepCompiler().build(given, language, without=("own_product", LIBRARY_FUNCTIONS.name)).steps[-1].candidate.source
        )
        made = assigned(source)
        assert linear[1] == "linear" and made[linear[0]].startswith("F.linear(") and last in made


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_every_seed_gives_the_same_build(language: str) -> None:
    one, other = course("rms_norm_rows", language), course("rms_norm_rows", language, 7)
    assert [step.candidate.source for step in one.steps] == [step.candidate.source for step in other.steps]


@pytest.mark.parametrize("name", ["star_relu", "rms_norm_rows", "dilated_max_pool"])
def test_cpp_computes_what_the_task_does(name: str) -> None:
    theirs, mine = executed(built_in(name).source), executed(course(name, "cpp").steps[-1].candidate.source)
    torch.manual_seed(0)
    arguments, inputs = theirs.get_init_inputs(), theirs.get_inputs()
    model, new = theirs.Model(*arguments), mine.ModelNew(*arguments)
    for parameter in model.parameters():
        parameter.data += torch.rand_like(parameter)
    new.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(new(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_triton_computes_what_the_module_does() -> None:
    found = interpreted(HERE / "triton_interpreted.py", "wide", "chain", "softmax_rows", "rms_by_hand")
    assert set(found) == {"chain", "softmax_rows", "rms_by_hand"} and all(found.values())
    for steps in found.values():
        assert [(technique, error) for technique, error in steps if isinstance(error, str) or not error < LIMIT] == []


@pytest.mark.parametrize("name", ["residual", "mlp", "mixed"])
def test_a_network_is_the_tasks_own_with_its_layers_exchanged(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    given = NETWORKS[name]
    theirs = executed(given.source, "task")
    steps = layer_steps(given)
    assert [step.technique for step in steps[:1]] == ["captured"] and steps[-1].technique == "graph_replay"
    reference = theirs.Model(*theirs.get_init_inputs())
    for number, step in enumerate(steps):
        assert "class ModelNew(Model):" in step.candidate.source
        new = imported(step.candidate.source, tmp_path, f"{name}_{number}").ModelNew(*theirs.get_init_inputs())
        assert list(new.state_dict()) == list(reference.state_dict())
        new.load_state_dict(reference.state_dict())
        kinds = {type(layer) for layer in reference.modules() if type(layer).__module__.startswith("torch.nn")}
        exchanged = {kind.__name__ for kind in kinds if f"is nn.{kind.__name__}:" in step.candidate.source}
        assert bool(exchanged) == (step.technique != "captured")
        for mine, other in zip(new.modules(), reference.modules(), strict=True):
            if type(other) in kinds and type(other).__name__ in exchanged:
                assert isinstance(mine, type(other)) and type(mine).__module__ == f"{name}_{number}"
            elif type(other) in kinds:
                assert type(mine) is type(other)


def imported(source: str, folder: Path, name: str) -> Any:
    """From a file: Triton reads the text of a kernel there."""
    from importlib.util import module_from_spec, spec_from_file_location

    (folder / f"{name}.py").write_text(source)
    spec = spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("name", "mutates"), [("chain", False), ("softmax_rows", False), ("linear_tail", False), ("in_place", True)]
)
def test_only_a_graph_that_works_in_place_is_made_functional(name: str, mutates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given = next(one for one in SMALL if one.name == name)
    seen: list[Any] = []
    functional = trace._functional
    monkeypatch.setattr(trace, "_functional", lambda exported, *more: seen.append(exported) or functional(exported, *more))
    short = trace.trace(given, KNOWN)
    assert bool(seen) == mutates
    monkeypatch.setattr(trace, "_mutates", lambda target: True)
    assert trace.trace(given, KNOWN) == short and seen
