"""The suite must be judgeable: deterministic, well scaled, well conditioned, and sensitive to everything it takes in."""

import ast
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task
from bottega.tasks import load_task, load_tasks
from bottega.tasks.builtin import at_size, builtin_files
from bottega.tasks.tags import FAMILIES

NAMES = [path.stem for path in builtin_files()]


def namespace_of(task: Task) -> dict[str, Any]:
    """Runs a suite file in this process, which only our own tasks may: a user's task runs in the judge's sandbox."""
    namespace: dict[str, Any] = {}
    exec(compile(task.source, task.label, "exec"), namespace)
    return namespace


def tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def forward(model: torch.nn.Module, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return tensors(model(*[tensor.clone() for tensor in inputs]))


def built(name: str, seed: int = 7) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    namespace = namespace_of(load_task(f"builtin:{name}"))
    torch.manual_seed(seed)
    model = namespace["Model"](*namespace["get_init_inputs"]())
    return model, namespace["get_inputs"]()


def distance(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    """The largest difference between two answers, relative to the answer's own scale."""
    pairs = [(a.double(), b.double()) for a, b in zip(left, right, strict=True)]
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def test_there_are_enough_tasks_on_three_levels() -> None:
    per_level = Counter(task.level for task in load_tasks(["builtin"]).tasks)
    assert set(per_level) == {1, 2, 3}
    assert per_level[1] >= 14 and per_level[2] >= 14 and per_level[3] >= 8
    assert len(set(NAMES)) == len(NAMES) >= 36


def test_ids_are_unique_over_sizes_and_stable_under_reformatting() -> None:
    tasks = [task for size in ("cpu", "gpu") for task in load_tasks(["builtin"], size=size).tasks]
    assert len({task.id for task in tasks}) == len(tasks) == 2 * len(NAMES)
    for task in tasks:
        assert Task("# a remark\n\n" + ast.unparse(ast.parse(task.source)) + "\n\n").id == task.id


def test_the_suite_covers_every_operator_family() -> None:
    found = {tag for task in load_tasks(["builtin"]).tasks for tag in task.tags}
    assert set(FAMILIES) <= found
    assert {"dtype:bfloat16", "dtype:int64", "dtype:bool"} <= found


@pytest.mark.parametrize("size", ["cpu", "gpu"])
@pytest.mark.parametrize("name", NAMES)
def test_source_at_a_size_is_plain(name: str, size: str) -> None:
    task = load_task(f"builtin:{name}", size=size)
    assert "SIZES" not in task.source
    assert f"size:{size}" in task.tags and f"level:{task.level}" in task.tags
    assert set(FAMILIES) & set(task.tags)


@pytest.mark.rotates
@pytest.mark.parametrize("name", NAMES)
def test_gpu_size_fits_together_and_fits_the_device(name: str) -> None:
    namespace = namespace_of(load_task(f"builtin:{name}", size="gpu"))
    with torch.device("meta"), torch.no_grad():
        model = namespace["Model"](*namespace["get_init_inputs"]())
        inputs = namespace["get_inputs"]()
        outputs = tensors(model(*inputs))
    sizes = [tensor.numel() * tensor.element_size() for tensor in inputs]
    assert outputs and sum(sizes) <= 2e9


@pytest.mark.rotates
@pytest.mark.parametrize("name", NAMES)
def test_cpu_size_is_judgeable(name: str) -> None:
    model, inputs = built(name)
    outputs = forward(model, inputs)
    assert sum(tensor.numel() * tensor.element_size() for tensor in inputs) <= 64e6

    for output in outputs:
        values = output.double()
        assert torch.isfinite(values).all()
        assert values.square().mean().sqrt() > 1e-2, "near-zero output"
        assert output.numel() == 1 or values.std() > 1e-2 * values.abs().mean(), "nearly constant output"
        for tensor in inputs:
            same = tensor.shape == output.shape and tensor.dtype == output.dtype
            assert not (same and torch.allclose(tensor, output, rtol=1e-2, atol=1e-2)), "identity"

    again_model, again_inputs = built(name)
    for first, second in zip(outputs, forward(again_model, again_inputs), strict=True):
        assert torch.equal(first, second), "not deterministic"

    # Against double precision: a task that amplifies rounding would punish honest kernels for their order of summation.
    exact_inputs = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    half = any(tensor.dtype == torch.bfloat16 for tensor in inputs)
    exact_model, _ = built(name)
    assert distance(outputs, forward(exact_model.double(), exact_inputs)) < (2e-2 if half else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cpu_size_depends_on_everything(name: str) -> None:
    model, inputs = built(name)
    _, others = built(name, seed=8)
    outputs = forward(model, inputs)
    assert distance(forward(model, others), outputs) > 5e-2, "fresh inputs give nearly the same answer"
    for position, other in enumerate(others):
        changed = [*inputs[:position], other, *inputs[position + 1 :]]
        assert distance(forward(model, changed), outputs) > 1e-2, f"input {position} hardly matters"
    for key, value in model.state_dict().items():
        if value.is_floating_point():
            kept = value.clone()
            value.add_(0.2 * kept.abs().mean().clamp(min=0.1) * torch.randn_like(kept))
            assert distance(forward(model, inputs), outputs) > 1e-4, f"{key} hardly matters"
            value.copy_(kept)


def test_references_into_the_suite() -> None:
    assert [task.name for task in load_tasks(["builtin:swiglu"]).tasks] == ["swiglu"]
    assert {task.level for task in load_tasks(["builtin:level3"]).tasks} == {3}
    assert {task.level for task in load_tasks(["builtin"], levels=[1, 3]).tasks} == {1, 3}
    with pytest.raises(UsageError, match="did you mean swiglu"):
        load_task("builtin:swigluu")
    with pytest.raises(UsageError, match="cpu and gpu"):
        load_task("builtin:swiglu", size="tpu")
    with pytest.raises(UsageError, match="where one is wanted"):
        load_task("builtin")


def test_sizes_become_constants_in_place() -> None:
    table = '{\n    "cpu": dict(rows=2, shape=(3, 4)),\n    "gpu": dict(rows=9, shape=(5, 6)),\n}'
    source = f"import torch\n\nSIZES = {table}\nx = rows\n"
    assert at_size(source, "gpu") == "import torch\n\nrows = 9\nshape = (5, 6)\nx = rows\n"


@pytest.mark.parametrize(
    "table", ["4", '{"cpu": dict(rows=f())}', '{"gpu": dict(rows=1)}', '{"cpu": [1]}', '{"cpu": dict([1])}']
)
def test_a_table_of_sizes_that_is_no_literal(table: str) -> None:
    with pytest.raises(TaskError, match="SIZES must be a literal"):
        at_size(f"SIZES = {table}\n", "cpu")
