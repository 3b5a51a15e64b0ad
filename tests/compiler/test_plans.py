"""A plan means what the module does, whatever techniques are on: run with torch, kernel by kernel, against the module itself."""

from __future__ import annotations

import re

import pytest
import torch
from plan_interpreter import Interpreter
from small_tasks import SMALL, task

from bottega.compiler.bodies import bodies, made, read
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Apply, Cast, walk
from bottega.compiler.fusion_rule import MOST_AGAIN
from bottega.compiler.kernel import Attention, FunctionCall, Map, Product, RowProgram
from bottega.compiler.planner_passes import PASSES, SHARED_RESULTS
from bottega.compiler.step_compiler import StepCompiler, lower_task
from bottega.core.task import Task

NAMES = [technique.name for technique in PASSES]
SETS = [frozenset(NAMES[:count]) for count in (0, 1, 4, len(NAMES))]


def built(given: Task) -> tuple[torch.nn.Module, list]:
    namespace: dict = {"__name__": "task"}
    exec(compile(given.source, given.name, "exec"), namespace)
    torch.manual_seed(1)
    model = namespace["Model"]()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.3 + 0.5 * (parameter.ndim == 1)
    return model, namespace["get_inputs"]()


def close(got: object, wanted: object) -> None:
    mine, theirs = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(wanted)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        loose = other.dtype in (torch.float16, torch.bfloat16)
        torch.testing.assert_close(one.double(), other.double(), rtol=2e-2 if loose else 2e-4, atol=1e-2 if loose else 2e-5)


@pytest.mark.rotates
@pytest.mark.parametrize("given", SMALL, ids=lambda given: given.name)
def test_a_plan_computes_what_the_module_does(given: Task) -> None:
    understood = lower_task(given)
    model, inputs = built(given)
    with torch.no_grad():
        wanted = model(*[value.clone() for value in inputs])
        for techniques in SETS:
            close(Interpreter(understood.plan(techniques), model, [value.clone() for value in inputs]).run(), wanted)


def kernels(name: str, *techniques: str) -> list:
    given = next(one for one in SMALL if one.name == name)
    return list(lower_task(given).plan(frozenset(techniques)).kernels)


def test_without_techniques_every_operator_stands_alone() -> None:
    assert [kernel.origin for kernel in kernels("chain")] == [("mul",), ("add",), ("sigmoid",), ("mul",)]


def test_a_chain_becomes_one_pass() -> None:
    assert [type(kernel) for kernel in kernels("chain", "fuse_elementwise")] == [Map]


def test_a_product_stays_with_the_library_until_asked_for() -> None:
    fused = kernels("linear_tail", "fuse_elementwise")
    assert [type(kernel) for kernel in fused] == [FunctionCall, Map]
    assert [type(kernel) for kernel in kernels("linear_tail", "fuse_elementwise", "own_product")] == [Product]


def test_a_norm_by_hand_is_one_program_for_each_row() -> None:
    assert [type(kernel) for kernel in kernels("rms_by_hand", "fuse_elementwise", "fuse_rows")] == [RowProgram]
    assert [type(kernel) for kernel in kernels("norm_channels", "fuse_elementwise", "fuse_rows")] == [RowProgram]


def test_attention_by_hand_is_found() -> None:
    assert [type(kernel) for kernel in kernels("attention_by_hand", *NAMES)] == [Attention]


def test_a_result_with_two_users_is_computed_once() -> None:
    fused = kernels("residual_two_uses", "fuse_elementwise")
    assert [type(kernel) for kernel in fused] == [FunctionCall, Map]


@pytest.mark.parametrize(
    ("returned", "second"),
    [
        ("F.silu(y) + x", Map),
        ("y, F.silu(y) + x", Map),
        ("torch.logsumexp(F.silu(y) + x, 1)", RowProgram),
        ("(F.silu(y) * x).amax((2, 3))", RowProgram),
    ],
)
def test_what_follows_a_norm_of_few_long_groups_is_in_its_second_kernel(returned: str, second: type) -> None:
    forward = f"y = F.group_norm(x, 2, self.n.weight, self.n.bias)\nreturn {returned}"
    understood = lower_task(
        task("groups", forward, "torch.randn(2, 6, 60, 60)", "self.n = nn.GroupNorm(2, 6)"), with_library=False
    )
    plan = understood.plan(frozenset((*NAMES, SHARED_RESULTS.name)))
    assert [type(kernel) for kernel in plan.kernels] == [RowProgram, second]
    model, inputs = built(understood.task)
    close(Interpreter(plan, model, inputs).run(), model(*inputs))


@pytest.mark.parametrize(("also", "times"), [("", 2), (" + z", 1)])
def test_each_reader_computes_an_activation_anew_and_no_sum_of_two_tensors(also: str, times: int) -> None:
    forward = f"y = F.gelu(x){also}\nreturn y.norm(dim=1), y * w"
    inputs = "torch.randn(40, 40), torch.randn(40, 40), torch.randn(40, 1)"
    understood = lower_task(task("twice", forward, inputs, arguments="x, z, w"), with_library=False)
    plan = understood.plan(frozenset(NAMES))
    found = [[node for body in bodies(kernel) for node in walk(body) if isinstance(node, Apply)] for kernel in plan.kernels]
    assert sum(any(node.function == "erf" for node in nodes) for nodes in found) == times
    model, given = built(understood.task)
    close(Interpreter(plan, model, given).run(), model(*given))


@pytest.mark.rotates
def test_steps_that_are_written_out_do_not_compute_all_steps_before_them_again() -> None:
    forward = """h, ys = torch.zeros(4, 6, 9), []
for i in range(24):
    h = torch.tanh(x[:, i, :, None]) * h + x[:, i, :, None] * 2
    ys.append((h * h.exp()).sum(-1))
return torch.stack(ys, 1)"""
    given = task("loop", forward, "torch.randn(4, 24, 6)")
    understood = lower_task(given, with_library=False)
    plan = understood.plan(frozenset(NAMES))
    work = [sum(isinstance(node, Apply) for body in bodies(kernel) for node in walk(body)) for kernel in plan.kernels]
    assert max(work) <= 2 * MOST_AGAIN
    model, inputs = built(given)
    close(Interpreter(plan, model, inputs).run(), model(*inputs))


def test_a_recurrence_begins_with_its_own_zeros_and_names_what_is_used() -> None:
    call, tail = kernels("recurrent_given", "fuse_elementwise")[1:]
    assert (type(call), type(tail), call.function, call.targets) == (FunctionCall, Map, "self.g[0]", "t2_0, _")
    call = kernels("recurrent_pair", "fuse_elementwise")[0]
    assert len(call.arguments) == 1
    assert re.fullmatch(r"(\w+), \((\w+), (\w+)\)", call.targets)


@pytest.mark.parametrize(
    "given",
    [
        task("random", "return F.dropout(x, 0.5, training=True)", "torch.randn(3, 4)"),
        task("data_dependent", "return x[x > 0]", "torch.randn(3, 4)"),
        task("unknown", "return torch.linalg.svdvals(x)", "torch.randn(3, 4)"),
    ],
    ids=lambda given: given.name,
)
def test_what_is_not_understood_is_refused(given: Task) -> None:
    with pytest.raises(Refusal, match=given.name):
        StepCompiler().build(given, "cpp")


def test_a_task_that_raises_is_refused_with_its_reason() -> None:
    with pytest.raises(Refusal, match="cannot be traced: RuntimeError"):
        lower_task(task("broken", "raise RuntimeError('no')", "torch.randn(3)"))


@pytest.mark.parametrize("techniques", [SETS[0], SETS[-2]], ids=["none", "fused"])
def test_an_output_lies_in_memory_as_the_modules_own_does(techniques: frozenset[str]) -> None:
    given = task(
        "turned",
        "return torch.relu(x.transpose(1, 2) * 2 + 1), x + 1",
        "torch.randn(2, 5, 3, 4)",
    )
    model, inputs = built(given)
    wanted = model(*inputs)
    assert not wanted[0].is_contiguous()
    got = Interpreter(lower_task(given).plan(techniques), model, list(inputs)).run()
    close(got, wanted)
    assert [one.stride() for one in got] == [one.stride() for one in wanted]


FLAT_NORM = task(
    "flat_norm",
    "x = F.relu(x) * skip\nreturn torch.pow(F.normalize(torch.flatten(x, 2), dim=2).reshape(x.shape), 3)",
    "torch.randn(3, 4, 5, 6), torch.randn(3, 4, 5, 6)",
    arguments="x, skip",
)
IN_PLACE = task(
    "in_place",
    "velocity.mul_(0.9).add_(gradient)\nweights.sub_(0.5 * velocity)\nreturn weights",
    "torch.randn(40), torch.randn(40), torch.randn(40)",
    arguments="weights, velocity, gradient",
)


@pytest.mark.rotates
@pytest.mark.parametrize("techniques", SETS)
def test_no_kernel_loads_what_it_stores(techniques: frozenset[str]) -> None:
    """Of several warps one may load a row's number before another has stored it: on the H200 a fifth of the output was never written."""
    for given in (FLAT_NORM, *(one for one in SMALL if "norm" in one.name)):
        for kernel in lower_task(given).plan(techniques).kernels:
            assert isinstance(kernel, FunctionCall) or not set(made(kernel)) & read(kernel), (given.name, kernel)
    model, inputs = built(FLAT_NORM)
    close(Interpreter(lower_task(FLAT_NORM).plan(techniques), model, inputs).run(), model(*inputs))


def test_inputs_that_the_module_changes_are_changed() -> None:
    plan = lower_task(IN_PLACE).plan(SETS[-1])
    assert [name for name, _ in plan.changed] == ["weights", "velocity"]
    model, inputs = built(IN_PLACE)
    found = Interpreter(plan, model, [value.clone() for value in inputs])
    returned = found.run()
    close(returned, model(*inputs))
    assert dict(plan.changed)["weights"] == plan.returns, "what is returned is what the input holds in the end"


def test_what_a_choice_depends_on_is_rounded_as_torch_rounds_it() -> None:
    body = "h = x + y\np = F.softmax((h * h).float(), -1)\nreturn h, {}"
    inputs = "torch.randn(4, 8).bfloat16(), torch.randn(4, 8).bfloat16()"
    for chosen, result in ((True, "torch.topk(p, 2)[1]"), (False, "p * 2")):
        plan = lower_task(task("router", body.format(result), inputs, arguments="x, y")).plan(frozenset(NAMES))
        inside = [node for kernel in plan.kernels for root in bodies(kernel) for node in walk(root)]
        assert any(isinstance(node, Cast) and node.dtype == "bfloat16" for node in inside) is chosen
