"""Drafts of one task differ in choices that matter, the most promising come first, and no two are alike."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from half_tasks import HALVES
from network_tasks import MLP
from small_tasks import SMALL, task

from bottega.compiler import fusion_rule, step_compiler
from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep
from bottega.compiler.choices import Choices, Tile, Tuning
from bottega.compiler.draft_compiler import CAPTURED, SHELVED, DraftCompiler, draft, promising_steps, variants
from bottega.compiler.merged_linears import JOINED
from bottega.compiler.model_class import with_model_class
from bottega.compiler.step_compiler import StepCompiler, lower_task
from bottega.core.candidate import Candidate
from bottega.core.task import Task

LARGE = task(
    "product", "return F.relu((x @ self.w - 2) * 1.5)", "torch.randn(2048, 1024, dtype=torch.bfloat16)",
    "self.w = nn.Parameter(torch.randn(1024, 512, dtype=torch.bfloat16))",
)  # fmt: skip


def launches(source: str) -> int:
    return len(re.findall(r"_kernel\[", source))


def written(given: Task, choices: Choices) -> str:
    step = draft(lower_task(given), "triton", choices)
    assert step is not None
    return step.candidate.source


def test_what_a_draft_grew_from_comes_behind_other_choices() -> None:
    whole = task("unit", "return x / x.norm()", "torch.randn(3, 70000)")
    steps = DraftCompiler().build(whole, "triton").steps
    assert steps[0].technique == "split_rows"
    grown = [place for place, step in enumerate(steps) if step.candidate.id == steps[0].candidate.parent]
    assert grown == [len(steps) - 1] and len(steps) > 2


def test_a_network_that_is_only_captured_comes_last_of_all() -> None:
    steps = DraftCompiler().build(Task(MLP, "mlp"), "triton").steps
    assert [step.technique for step in steps].index(CAPTURED) == len(steps) - 1 > 3


def test_a_product_of_halves_with_what_follows_is_one_launch() -> None:
    source = written(LARGE, Choices(own=("product",)))
    assert launches(source) == 1 and "tl.dot(" in source and "torch.matmul" not in source and "input_precision" not in source


def test_left_to_the_library_its_tail_is_one_kernel() -> None:
    source = written(LARGE, Choices())
    assert launches(source) == 1 and "tl.dot(" not in source and "torch.matmul" in source


def test_numbers_that_are_chosen_are_the_ones_that_are_written() -> None:
    source = written(LARGE, Choices(own=("product",), tuning=Tuning(Tile(64, 128, 32, 8, 4), splits=4)))
    assert "BLOCK_M=64, BLOCK_N=128, BLOCK_K=32" in source and "num_warps=8" in source and "num_stages=4" in source
    assert "partial = torch.empty((4, " in source
    assert "BLOCK=4096" in written(LARGE, Choices(tuning=Tuning(block=4096)))


def test_drafts_of_a_product_differ_in_tiles_splits_and_whose_it_is() -> None:
    found = list(variants(lower_task(LARGE)))
    assert len(set(found)) == len(found)
    assert found[0] == Choices() and Choices(own=("product",)) in found[:3] and Choices(library=True) in found
    assert len({choices.tuning.tile for choices in found}) > 4 and {choices.tuning.splits for choices in found} > {0, 2}


def test_a_short_product_of_halves_is_ours_first() -> None:
    given = task(
        "short", "return F.gelu(self.fc(x))", "torch.randn(4096, 64).bfloat16()", "self.fc = nn.Linear(64, 256).bfloat16()"
    )
    assert next(variants(lower_task(given))).own == ("short_product",)


@pytest.mark.rotates
def test_no_two_drafts_of_a_task_are_alike() -> None:
    for given in (
        LARGE,
        next(one for one in HALVES if one.name == "decoder_bf16"),
        next(one for one in SMALL if one.name == "chain"),
    ):
        sources = [step.candidate.source for step in DraftCompiler().build(given, "triton").steps]
        assert len(set(sources)) == len(sources) > 1


def test_layers_over_one_input_are_one_product_whose_weights_are_joined_anew_when_they_change() -> None:
    given = with_model_class(next(one for one in HALVES if one.name == "decoder_bf16"))
    source = written(given, Choices(merged=True))
    assert source.count("F.linear(") == 3 and source.count(".split((") == 2
    names = re.findall(r'joined\(self, "(\w+)"', source)
    assert len(set(names)) == len(names) == 2
    scope: dict[str, Any] = {"torch": torch}
    exec(JOINED, scope)
    module, weights = torch.nn.Module(), [torch.ones(2), torch.zeros(1)]
    first = scope["joined"](module, "kept", *weights)
    assert scope["joined"](module, "kept", *weights) is first
    weights[1].add_(3)
    assert scope["joined"](module, "kept", *weights).tolist() == [1, 1, 3]


@pytest.mark.parametrize("weights", ["(self.a * s, self.b * s)", "(s, s * 2)"])
def test_weights_that_are_computed_or_given_are_not_joined(weights: str) -> None:
    given = task(
        "computed", f"v, w = {weights}; return F.linear(x, v).sigmoid() * F.linear(x, w)", "torch.randn(4, 8), torch.randn(6, 8)",
        "self.a, self.b = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(6, 8))", arguments="x, s",
    )  # fmt: skip
    assert "joined(" not in written(given, Choices(merged=True))


def test_a_convolution_is_given_the_result_that_was_cast_for_it() -> None:
    given = task(
        "gated", "return F.relu(self.c(F.glu(self.p(x), dim=1)))", "torch.randn(2, 8, 9, dtype=torch.bfloat16)",
        "self.p, self.c = nn.Conv1d(8, 16, 1).bfloat16(), nn.Conv1d(8, 8, 3, padding=1, groups=8).bfloat16()",
    )  # fmt: skip
    for choices in (Choices(), Choices(library=True)):
        source = written(given, choices)
        (convolved,) = re.findall(r"= (?:F\.)?conv1d\((\w+), self\.c\.", source)
        assert f"{convolved} = torch.empty(" in source


def test_around_the_products_of_a_layer_in_halves_all_is_ours() -> None:
    given = next(one for one in HALVES if one.name == "decoder_bf16")
    first = DraftCompiler(1).build(given, "triton").steps[0].candidate.source
    assert first.count("F.linear(") == 6 and first.count("F.scaled_dot_product_attention(") == 1
    assert "= linear_onto(" in first  # the last residual
    assert launches(first) == 4  # two norms, the second with the residual; rotary of queries and keys together; the gate
    assert first.count(".permute(0, 2, 1, 3)") == 3, "queries and keys lie as torch's attention gives its result"
    assert "torch.cat" not in first and "torch.neg" not in first


@pytest.mark.parametrize("merged", [False, True])
def test_heads_are_normalised_and_turned_in_one_launch_that_reads_them_in_their_own_type(merged: bool) -> None:
    source = written(next(one for one in HALVES if one.name == "normed_heads_bf16"), Choices(merged=merged))
    assert launches(source) == 1 and "dtype=torch.float32" not in source
    assert re.search(r"attention\(\w+\.permute\(0, 2, 1, 3\),", source) and "torch.empty((2, 6, 4, 8)" in source


SUMS = {
    "r = F.softmax(x, -1); return r + self.p(F.gelu(r))": 1,  # a residual of ours, read before the product alone
    "r = F.softmax(x, -1); return self.p(F.gelu(r)) + r": 1,
    "r = F.softmax(x, -1); return r + self.p(r)": 0,  # the product reads it while it is written
    "return x + self.p(F.gelu(x))": 0,  # the caller's own tensor
    "r = F.softmax(x, -1); return r + self.p(F.gelu(r)), r": 0,
    "r = F.softmax(x, -1); h = self.p(F.gelu(r)); return r + h, h": 0,
    "r = F.softmax(x, -1); return r + self.b(F.gelu(r))": 1,  # what makes the residual adds the bias to it
    "r = F.softmax(x, -1); return r + self.b(F.gelu(self.p(r)))": 0,  # which another product reads
    "r = F.softmax(x, -1); c = torch.view_as_complex(r.view(3, 20, 2)); return r + self.p(F.gelu(r)), torch.view_as_real(c * c)": 0,
}


@pytest.mark.parametrize("forward", SUMS)
def test_a_residual_of_ours_that_nobody_else_reads_is_where_the_library_adds_its_product(forward: str) -> None:
    given = task("residual", forward, "torch.randn(3, 5, 8)", "self.p, self.b = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)")
    assert written(given, Choices()).count("= linear_onto(") == SUMS[forward]


def test_what_was_tried_behind_two_fused_kernels_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, merge_at = list[int](), fusion_rule._merge_at

    def counted(kernels: Any, place: int, *rest: Any) -> Any:
        tried.append(place)
        return merge_at(kernels, place, *rest)

    monkeypatch.setattr(fusion_rule, "_merge_at", counted)
    layers = "for p in self.p:\n    x = F.layer_norm(x + F.silu(p(x)) * 0.5, (8,))\nreturn x"
    given = task("layers", layers, "torch.randn(3, 8)", "self.p = nn.ModuleList(nn.Linear(8, 8) for _ in range(20))")
    source = written(given, Choices())
    assert launches(source) == 20 and len(tried) < 20 * 12


def test_a_convolution_that_an_operator_was_taken_apart_into_is_left_to_the_library_too() -> None:
    apart = "return F.gelu(torch.convolution(F.silu(x), self.c.weight, None, [2], [1], [1], False, [0], 1))"
    source = written(task("apart", apart, "torch.randn(2, 8, 20)", "self.c = nn.Conv1d(8, 4, 3)"), Choices())
    assert "F.conv1d(" in source and launches(source) == 2


LOOP = """h, ys = torch.zeros(3, 8), []
for t in range(6):
    h = torch.tanh(F.layer_norm(self.p(h) + x[:, t], (8,))) * h.sigmoid() + h
    ys.append((h * x[:, t]).sum(-1))
return torch.stack(ys, 1)"""


def test_no_pair_of_kernels_is_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, pair = list[tuple[Any, ...]](), fusion_rule._pair

    def noted(producer: Any, consumer: Any, buffer: str, passes: Any) -> Any:
        tried.append((producer, consumer, buffer))  # held, so that ids stay theirs
        return pair(producer, consumer, buffer, passes)

    monkeypatch.setattr(fusion_rule, "_pair", noted)
    lowered = lower_task(task("loop", LOOP, "torch.randn(3, 6, 8)", "self.p = nn.Linear(8, 8)"))
    for passes in ({"fuse_elementwise", "fuse_rows"}, {"fuse_elementwise", "fuse_rows", "tuned_tiles"}):
        lowered.plan(frozenset(passes))
    assert tried and len({(id(one), id(other), name) for one, other, name in tried}) == len(tried)


def test_of_a_long_module_the_ends_of_the_branches_are_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_compiler, "MOST_STATEMENTS", 4)
    given = task("loop", LOOP, "torch.randn(3, 6, 8)", "self.p = nn.Linear(8, 8)")
    found = {step.technique: step.candidate for step in StepCompiler().build(given, "triton").steps}
    assert {FIRST_ATTEMPT, "graph_replay"} <= set(found) and len(found) <= 4
    assert all(one.parent is None and "triton.jit" in one.source for one in found.values())


def step(name: str, parent: BuildStep | None = None) -> BuildStep:
    return BuildStep(Candidate(name, "triton", parent=parent.candidate.id if parent else None), name)


def test_ends_of_branches_come_before_the_steps_that_led_there() -> None:
    naive = step("naive")
    fused = step("fused", naive)
    tuned, own = step("tuned", fused), step("own", fused)
    tiles, captured = step("tiles", own), step(CAPTURED)
    build = (naive, fused, tuned, own, tiles, captured)
    assert [one.technique for one in promising_steps(build, "triton")] == ["tiles", "tuned", "own", "fused", CAPTURED]
    shelved = step(SHELVED, fused)
    assert [one.technique for one in promising_steps((*build, shelved), "triton")][:3] == [SHELVED, "tiles", "tuned"]
    assert [one.technique for one in promising_steps(build[:-1], "cpp")] == ["tuned", "tiles", "fused", "own"]


def test_on_a_cpu_products_with_weights_that_are_packed_once_are_ours_first() -> None:
    init = "self.f = nn.Linear(128, 160)"
    for rows, ours in ((32, True), (2000, False)):
        first = (
            DraftCompiler().build(task("few", "return F.gelu(self.f(x))", f"torch.randn({rows}, 128)", init), "cpp").steps[0]
        )
        assert ("F.linear(" not in first.candidate.source) == ours


ATTENTION = "q, k, v = self.qkv(x).split(64, 2); s = F.relu(q @ k.transpose(1, 2)) ** 2; return (s / s.sum(-1, True)) @ v"


@pytest.mark.rotates
def test_the_draft_that_leaves_no_product_to_torch_is_among_the_first_two() -> None:
    """Captured, and the first, only where launches take the host longer than the device."""
    init = "self.qkv = nn.Linear(64, 192)"
    large = DraftCompiler().build(task("large", ATTENTION, "torch.randn(512, 1024, 64)", init), "triton").steps
    small = (
        DraftCompiler()
        .build(task("small", ATTENTION + ".tanh().cumsum(1).softmax(-1)", "torch.randn(2, 64, 64)", init), "triton")
        .steps
    )
    own = large[1].candidate.source
    assert large[0].technique == SHELVED and own.count("tl.dot(") == 3 and "CUDAGraph" not in own and "torch.matmul" not in own
    assert small[0].candidate.source.count("tl.dot(") == 3 and "CUDAGraph" in small[0].candidate.source
    assert all(step.technique != CAPTURED for step in (*large[:2], *small[:2]))


@pytest.mark.rotates
def test_of_a_long_network_the_second_draft_is_fused_between_its_layers() -> None:
    layers = "*(layer for _ in range(24) for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()))"
    network = task("long", "return self.net(x) + x", "torch.randn(2, 16, 64, 64)", f"self.net = nn.Sequential({layers}).eval()")
    first, second = DraftCompiler(2).build(network, "triton").steps[:2]
    assert "F.conv2d(" not in first.candidate.source and "replace" not in second.candidate.source
    forward = second.candidate.source[second.candidate.source.index("class ModelNew") :]
    assert forward.count("F.conv2d(") == 24 and forward.count("_kernel[") == 24 and "CUDAGraph" in forward
    assert second.candidate.source.count("@triton.jit") <= 2


def test_a_draft_says_nothing_of_itself_that_is_not_so() -> None:
    """Passes that do not apply here, such as those for causal attention, give it neither its name nor its line."""
    step = draft(lower_task(LARGE), "triton", Choices())
    assert (
        step is not None
        and step.summary == "Fuse what lies around the products into as few kernels as it takes (sub, mul, relu)."
    )


def test_a_tile_that_does_not_fit_has_fewer_stages_then_less_depth() -> None:
    assert Tile(16, 64, 256, 4, 4).within_memory(2) == Tile(16, 64, 256, 4, 4)
    assert Tile(16, 64, 256, 4, 4).within_memory(4) == Tile(16, 64, 256, 4, 2)
    assert Tile(128, 256, 128, 8, 3).within_memory(4) == Tile(128, 256, 64, 8, 2)
