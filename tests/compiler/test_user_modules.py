"""Modules as users write them: what forward takes and returns, tensors that are no parameters, operators that are left to torch."""

from __future__ import annotations

import sys
import types
from unittest import mock

import pytest
import torch
from modules_in_cpp import module

from bottega.compiler import row_chunks
from bottega.compiler.build_step import Refusal
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.compiler.step_compiler import lower_task
from bottega.core.arguments import read_arguments
from bottega.core.task import Task
from bottega.tasks.data_type import with_data_type

pytestmark = pytest.mark.rotates

CACHE = "torch.randn(2, 3, 1, 8), torch.randn(2, 3, 9, 8), torch.tensor([5])"
MODULES = {
    "named_result": module("torch.max(x * 2, dim=1)"),
    "nothing_beside": module("(F.silu(x) * x, None, (x.sum(-1), None))"),
    "mask_of_the_constructor": module(
        "F.softmax((x @ x.T).masked_fill(self.mask == 0, -1e9), -1)", init="self.mask = torch.tril(torch.ones(6, 6))"
    ),
    "numbers_in_forward": module("F.relu(F.conv1d(x[:, None], torch.tensor([0.25, 0.5, 0.25]).view(1, 1, 3), padding=1))"),
    "infinite_numbers": module("x + torch.tensor([[0.0], [-torch.inf]]).repeat(3, 1)"),
    "an_empty_cache": module("torch.tanh(torch.cat([torch.tensor([]), x]))"),
    "written_into_a_cache": module("(keys.index_copy(2, at, new) * 0.5).sum(-1)", CACHE, "new, keys, at"),
    "two_index_tensors": module(
        "x[:, a, b] * 2", "torch.randn(3, 5, 7), torch.tensor([[1], [4]]), torch.tensor([[0, -1, 3]])", "x, a, b"
    ),
    "complex_numbers": module(
        "F.gelu(torch.view_as_real(torch.view_as_complex(x.reshape(6, 5, 2)) * f).flatten(1))",
        "torch.randn(6, 10), torch.polar(torch.ones(6, 5), torch.randn(6, 5))",
        "x, f",
    ),
    "four_operands": module(
        "F.relu(torch.einsum('bn,bm,nm,bp->np', x, y, z, x))",
        "torch.randn(4, 5), torch.randn(4, 3), torch.randn(5, 3)",
        "x, y, z",
    ),
    "left_to_torch": module("F.grid_sample(x, g, align_corners=False) * 2", "torch.randn(2, 3, 5, 5), torch.rand(2, 4, 4, 2)", "x, g"),
    "a_convolution_of_its_own": module(
        "torch.convolution(x * 2, self.c.weight, None, [2], [1], [1], False, [0], 1).tanh(), "
        "torch.convolution(x * 2, self.c.weight.transpose(0, 1), self.c.bias, [2], [1], [1], True, [1], 1).tanh()",
        "torch.randn(2, 8, 20)",
        init="self.c = nn.Conv1d(8, 4, 3)",
    ),
    "normed_weight": module(
        "F.relu(self.c(x))", "torch.randn(2, 8, 20)", init="self.c = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 4, 3))"
    ),
    "a_kernel_called_like_a_method": module(
        "self.a(x, x, x)", "torch.randn(2, 6, 16)", init="self.a = nn.MultiheadAttention(16, 4, batch_first=True)"
    ),
    "weighted_classes": module(
        "F.cross_entropy(x, y, weight=self.w, ignore_index=3)",
        "torch.randn(16, 9), torch.arange(16) % 9",
        "x, y",
        "self.register_buffer('w', torch.rand(9) + 0.5)",
    ),
    "eight_bits": module(
        "((x * 1.0).to(torch.float8_e4m3fn), y.float() * 2)",
        "torch.cat((torch.arange(-480, 480) / 512, torch.logspace(-4, 2.66, 200), torch.tensor([464., 465., -1e9, torch.inf, torch.nan]))),"
        " torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)",
        "x, y",
    ),
    "scaled_products": module(
        "torch._scaled_mm((x / s).to(torch.float8_e4m3fn), self.w.T, scale_a=s, scale_b=self.t, out_dtype=torch.float32)",
        "torch.randn(5, 32), torch.rand(5, 1) + 0.1",
        "x, s",
        "self.register_buffer('w', torch.randn(48, 32).to(torch.float8_e4m3fn)); self.register_buffer('t', torch.rand(1, 48))",
    ),
    "a_mask_made_in_forward": module(
        "F.softmax(x + m[None], -1)", "torch.randn(2, 6, 37)", before="m = torch.zeros(6, 37); m[:3, 5:9] = 2.0; m[3:, :5] = -1.0"
    ),
    "a_convolution_of_turned_images": module(
        "F.relu(self.c(x.permute(0, 3, 1, 2)) * 2)", "torch.randn(2, 9, 9, 8)", init="self.c = nn.Conv2d(8, 8, 3)"
    ),
    "states_in_a_tuple": module(
        "self.r(x * 2, (h, c))",
        "torch.randn(3, 7, 4), torch.randn(1, 3, 6), torch.randn(1, 3, 6)",
        "x, h, c",
        "self.r = nn.LSTM(4, 6, batch_first=True)",
    ),
    "rotated_in_another_order": module(
        "x * c + torch.cat((-x[..., 4:], x[..., :4]), -1) * c", "torch.randn(2, 5, 4, 8).transpose(1, 2), torch.randn(5, 8)", "x, c"
    ),
    "options_that_torch_takes_apart": module(
        "F.cross_entropy(x, y, weight=self.w, label_smoothing=0.2)",
        "torch.randn(16, 9), torch.arange(16) % 9",
        "x, y",
        "self.register_buffer('w', torch.rand(9) + 0.5)",
    ),
    "places_of_a_maximum": module("[y * 2 for y in F.max_pool2d(x, 3, 2, return_indices=True)]", "torch.randn(2, 4, 9, 9)"),
    "a_loss_that_repeats_a_side": module("F.mse_loss(x, y)", "torch.randn(5, 1), torch.randn(5, 7)", "x, y"),
    "flips_and_repeats": module("x.flip(0, 1) * 2, x[:1].repeat(2, 1, 3) + 1, x.repeat_interleave(3, 0) - 1"),
    "one_hot": module("F.one_hot(x, 7).float() @ self.w", "torch.randint(0, 7, (4, 5))", init="self.w = nn.Parameter(torch.randn(7, 3))"),
    "shuffled_pixels": module("F.pixel_shuffle(x, 2) + 1, F.pixel_unshuffle(x, 3)", "torch.randn(2, 8, 6, 6)"),
    "interleaved": module("torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * 2", "torch.randn(4, 36)"),
    "windows_along_a_row": module("x.unfold(1, 5, 2).mean(-1) + 1"),
    "bits_as_whole_numbers": module("(x * 2).view(torch.int32) + 1"),
    "an_empty_rest": module("torch.cat((x * 2, x[:, 37:]), -1)"),
    "a_number_where_a_mask_says": module("(lambda y: y.index_put((y > 0.4,), torch.tensor(0.4)) * 2)(x * 3)"),
    "an_infinite_argument": module("torch.scatter(x * 2, 1, x.argmax(1, keepdim=True), -torch.inf).softmax(-1)"),
    "padded_in_another_order": module(
        "F.pad(x.transpose(1, 2).reshape(2, 9, 3, 4), (0, 0, 0, 0, 0, 2)) * 2", "torch.randn(2, 12, 9)"
    ),
    "one_key_and_many_values": module(
        "F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
        "torch.randn(2, 4, 7, 8), torch.randn(2, 1, 7, 8), torch.randn(2, 4, 7, 8)",
        "q, k, v",
    ),
    "any_number_of_tensors": module(
        "torch.stack([F.softplus(x) for x in xs]).mean(0) * w", "torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 6)", "*xs, w=2.0"
    ),
    "one_key": module("F.scaled_dot_product_attention(x, y, y)", "torch.randn(2, 4, 1, 8), torch.randn(2, 4, 1, 8)", "x, y"),
    "queries_that_see_no_key": module(
        "F.scaled_dot_product_attention(x, y, y, m)",
        "torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8), torch.ones(7, 7, dtype=torch.bool).tril(-1)",
        "x, y, m",
    ),
    "taken_along_a_side_that_repeats": module(
        "torch.take_along_dim(x * 2, y, 1)", "torch.randn(1, 7), torch.randint(0, 7, (5, 3))", "x, y"
    ),
    "a_cast_by_another_name": module("torch.renorm(x, 2, 0, 1.0)", "torch.ones(5, 16).half()"),
    "a_product_in_another_order": module(
        "torch.einsum('bij,bjk->kbi', x, y) * 2", "torch.randn(2, 3, 4), torch.randn(2, 4, 5)", "x, y"
    ),
    "truths_added": module("x * (y + z) + (y * z)", "torch.randn(3, 4), torch.arange(12).view(3, 4) % 2 > 0, torch.ones(3, 4) > 0", "x, y, z"),
    "whole_numbers_wrap": module(
        "(x + 200).float() - (-x).float(), (y * y).float()", "torch.arange(256, dtype=torch.uint8), torch.arange(9).int() * 99999", "x, y"
    ),
    "a_fraction_among_whole_numbers": module("x * torch.full_like(y, 2.7) + y", "torch.randn(3, 4), torch.arange(4)", "x, y"),
    "rows_of_a_product_in_another_type": module(
        "F.linear(x, self.w)[:, :-1] ** 1.0", "torch.randint(0, 9, (4, 6, 16))", init="self.w = nn.Buffer(torch.randint(0, 9, (50, 16)))"
    ),
    "changed_where_a_mask_says": module("y * 2", "torch.randn(4, 6), torch.randn(4, 6)", "x, z", "", "y = x * 3; y[y > 0] += 1; y[x > 0] = z[x > 0]"),
    "means_over_what_a_mask_chooses": module(
        "x[m].float().mean(), F.mse_loss(y[m], z[m]), y[r].mean(0), (y[r] - 1).sum()",
        "torch.randint(0, 9, (4, 6)), torch.randn(4, 6), torch.randn(4, 6), torch.rand(4, 6) > 0.5, torch.rand(4) > 0.2",
        "x, y, z, m, r",
    ),
    "hooks_of_its_own": module(
        "x * 2", init="self.register_forward_pre_hook(lambda m, i: (i[0] + 1,)); self.register_forward_hook(lambda m, i, o: o * 3)"
    ),
    "a_state_that_is_given": module(
        "self.h * 2",
        "torch.randn(4, 6), torch.randn(4, 6)",
        "x, h",
        "self.h = torch.randn(4, 6)",
        "self.h.copy_(h); self.h = torch.tanh(self.h + x)",
    ),
    "a_tensor_to_write_into": module(
        "self.t + x", "torch.randn(4, 6)", init="self.t = torch.zeros(4, 6)", before="self.t.zero_(); self.t[:, :3] += x[:, :3]"
    ),
    "running_means_of_all_calls": module("self.n(x) * 2", "torch.randn(8, 5)", init="self.n = nn.BatchNorm1d(5, momentum=None)"),
    "a_random_slope_in_evaluation": module("F.rrelu(x, 0.2, 0.4) + 1"),
    "before_a_slash": module("x * y + z", "torch.randn(3, 7), torch.randn(3, 7)", "x, /, y, *, z=2.0"),
    "targets_that_are_no_probabilities": module(
        "F.kl_div(x, y, reduction='none')", "torch.tensor([-1.0, -torch.inf, -2.0]), torch.tensor([0.5, 0.0, -0.25])", "x, y"
    ),
    "one_window": module("self.p(x)", "torch.randn(2, 10, 4)", init="self.p = nn.MaxPool1d(4)"),
    "checks_of_values": module(
        "F.gaussian_nll_loss(x, y, v, full=True) + x.mean()",
        "torch.randn(6, 5), torch.randn(6, 5), torch.rand(6, 5) + 0.1",
        "x, y, v",
        before="assert x.isfinite().all() and not x.isnan().any(), 'numbers'; assert not (y > 1e9).any()",
    ),
    "checks_of_numbers": module(
        "x * 2 + torch.linalg.inv(x.T @ x + 9 * torch.eye(5)).sum()",
        "torch.randn(6, 5)",
        before="assert x.max().item() < 1e9; assert not torch.equal(x, x + 1); torch._check(bool((x > -1e9).all())); torch._assert(x.sum() < 9, '')",
    ),
    "parts_called_like_a_graphs": module(
        "F.relu(y) * self.code + self.meta(x)[0]",
        "torch.randn(3, 5, 4)",
        init="self.graph = nn.Linear(4, 4); self.code = torch.arange(4.0); self.meta = nn.GRU(4, 4); self._code = nn.Parameter(torch.ones(4))",
        before="y = self.graph(x) + self._code; y[:, 0] = 1.0",
    ),
    "numbers_that_are_complex": module("(x * 1j).imag + torch.exp(x * (0.5 + 2j)).real"),
    "products_of_two_rows": module("torch.dot(x[0], x[1]) + torch.tensordot(x, x, 2)"),
    "sums_of_letters": module(
        "torch.einsum('bii->bi', x) * 2, torch.einsum('bij->j', x) + 1, torch.einsum('i,j->ij', x[0, 0], x[0, 1]) - 1", "torch.randn(3, 5, 5)"
    ),
    "short_rows_normed_and_rotated": module(
        "torch.stack((x[..., ::2] * w - x[..., 1::2], x[..., ::2] + w * x[..., 1::2]), -1).flatten(-2)",
        "torch.randn(2, 9, 24), torch.rand(4)",
        "x, w",
        "self.f = nn.Linear(24, 72)",
        "x = self.f(x).view(2, 9, 3, 3, 8).permute(2, 0, 3, 1, 4)[0]; x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
    ),
    "named_like_what_a_draft_calls": module(
        "F.softmax(x.clamp(min=min, max=max) * library, -1), torch.stack([x * max for _ in range(2)]).amax(0)",
        "torch.randn(6, 37), torch.randn(6, 37), torch.randn(37), torch.randn(37)",
        "x, min, max, library",
    ),
    "bits_of_whole_numbers": module("x & 7, (x | 3) ^ 5, x & x[:1]", "torch.arange(30).view(5, 6)"),
    "numbers_beside": module("x * 2, float('inf'), [-1, x.shape[1]], -float('inf')"),
    "class_probabilities": module("F.cross_entropy(x, y, label_smoothing=0.1)", "torch.randn(7, 9), torch.rand(7, 9)", "x, y"),
}  # fmt: skip


def _built(source: str, name: str) -> types.ModuleType:
    made = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def _outputs(source: str, name: str, draft: int) -> tuple[object, object]:
    """Of the module and of a draft in C++."""
    task = _built(source, "task")
    torch.manual_seed(0)
    model, inputs = task.Model(), task.get_inputs()
    steps = DraftCompiler(2).build(Task(source, name), "cpp").steps
    new = _built(steps[min(draft, len(steps) - 1)].candidate.source, "candidate").ModelNew()
    new.load_state_dict(model.state_dict())
    given = read_arguments(inputs, model.forward)
    with torch.no_grad():
        return model(*given.positional, **given.keywords), new(*given.positional, **given.keywords)


@pytest.mark.parametrize("name", MODULES)
def test_a_draft_returns_what_the_module_returns(name: str) -> None:
    for draft in (0, 1):
        wanted, got = _outputs(MODULES[name], name, draft)
        assert _shown(got) == _shown(wanted)
        ours, theirs = (
            [leaf for leaf in torch.utils._pytree.tree_leaves(value) if leaf is not None] for value in (got, wanted)
        )
        for one, other in zip(ours, theirs, strict=True):
            if not isinstance(other, torch.Tensor):
                assert one == other
                continue
            assert one.dtype == other.dtype
            torch.testing.assert_close(one.float(), other.float(), rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("layer", ["nn.GRU(6, 9, 2, batch_first=True, bidirectional=True)", "nn.LSTM(6, 9, bias=False)"])
def test_a_recurrent_layer_in_halves_walks_its_steps_in_fp32(layer: str) -> None:
    source = module("self.r(x * 2)", "torch.randn(3, 5, 6).bfloat16()", init=f"self.r = {layer}.bfloat16()")
    wanted, got = (torch.utils._pytree.tree_leaves(value) for value in _outputs(source, "halves", 0))
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)


def test_a_mask_of_numbers_alone_is_made_once() -> None:
    source = DraftCompiler().build(Task(MODULES["a_mask_made_in_forward"], "mask"), "cpp").steps[0].candidate.source
    constructor, forward = source.split("    def forward")
    assert "slice_scatter" in constructor and "slice_scatter" not in forward
    assert "persistent=False" in constructor and "self.made_" in forward


CHANGED = """import torch
import torch.nn as nn

try:
    from a_package_that_nobody_has import act
except ImportError:
    act = nn.ReLU

if torch.cuda.is_available() or True:
    WIDTH = 4
else:
    WIDTH = 8

for WIDE in (1, 2):
    WIDTH += WIDE

TABLE = {"first": nn.Tanh}
TABLE["second"] = nn.Sigmoid
TABLE.update(third=act)


class Part(nn.Module):
    def __init__(self, kinds=("first", "second", "third")):
        super().__init__()
        self.parts = nn.ModuleList(TABLE[kind]() for kind in kinds)
        self.weight = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        for part in self.parts:
            x = part(x) * self.weight
        return x


Part.eps = 2.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.eps = Part(), Part.eps

    def forward(self, x):
        return self.part(x) + self.eps


def get_inputs():
    return [torch.randn(3, 7)]


def get_init_inputs():
    return []


if __name__ == "__main__":
    TABLE = None
"""


def test_a_draft_has_whatever_makes_the_names_that_its_constructor_uses() -> None:
    wanted, got = _outputs(CHANGED, "changed", 0)
    torch.testing.assert_close(got, wanted)
    assert "__main__" not in DraftCompiler().build(Task(CHANGED, "changed"), "cpp").steps[0].candidate.source


NAMED = """from typing import Any, Optional

import torch
from torch.nn import functional as F

LIMIT = 0.5


class Block(torch.nn.Module):
    def forward(self, x: torch.Tensor, most=LIMIT, act=F.relu, options={"shift": 2.0}, **rest: Optional[Any]):
        return act(x).clamp(max=most) + options["shift"]


Model = Block


def get_inputs():
    return [torch.randn(3, 7)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_default_is_a_name_a_function_or_a_dictionary(dtype: str) -> None:
    source = NAMED if dtype == "float32" else with_data_type(NAMED, dtype, "named")
    wanted, got = _outputs(source, "named", 0)
    torch.testing.assert_close(got, wanted)


def test_the_default_of_an_imported_class_is_asked_of_it() -> None:
    source = module("x").replace("class Model(nn.Module):", "from default_kept import Block\n\n\nclass Model(Block):")
    source = source.replace("    def forward(self, x):\n        return x\n", "")
    kept = types.ModuleType("default_kept")
    exec(compile(NAMED, "default_kept", "exec"), vars(kept))
    kept.Block.__module__ = "default_kept"
    with mock.patch.dict(sys.modules, {"default_kept": kept}):
        wanted, got = _outputs(source, "imported", 0)
    torch.testing.assert_close(got, wanted)


def _shown(value: object) -> object:
    """The containers of a result, with a word for each tensor."""
    return [_shown(item) for item in value] if isinstance(value, tuple | list) else type(value)


FIELDS = """
import dataclasses
from typing import NamedTuple


@dataclasses.dataclass
class Fields:
    a: torch.Tensor
    b: torch.Tensor


class Named(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


"""


@pytest.mark.parametrize(("returned", "kind"), [("Fields(F.gelu(x), x.mean(-1))", dict), ("Named(x.exp(), x.mean(-1))", tuple)])
def test_a_result_with_fields_comes_as_a_plain_container(returned: str, kind: type) -> None:
    source = module(returned).replace("\nclass Model", f"{FIELDS}\nclass Model")
    wanted, got = _outputs(source, "fields", 0)
    assert type(got) is kind
    values = list(got.values()) if isinstance(got, dict) else got
    torch.testing.assert_close(values, [wanted.a, wanted.b] if kind is dict else tuple(wanted))  # type: ignore[attr-defined]


def test_a_module_that_keeps_a_state_is_refused() -> None:
    source = module("self.step(x)", "torch.randn(6, 4)", init="self.state = torch.zeros(6, 4)").replace(
        "    def forward", "    def step(self, x):\n        self.state = torch.tanh(self.state + x)\n        return self.state * 2\n\n    def forward"
    )  # fmt: skip
    with pytest.raises(Refusal, match="from call to call"):
        DraftCompiler(1).build(Task(source, "state"), "cpp")


@pytest.mark.parametrize("kept", ["self.state = torch.zeros(6, 4)", "self.register_buffer('state', torch.zeros(6, 4))"])
def test_a_module_that_reads_what_it_wrote_in_the_call_before_is_refused(kept: str) -> None:
    source = module("torch.tanh(x + self.state)", "torch.randn(6, 4)", init=kept, before="self.state.mul_(0.9).add_(x)")
    with pytest.raises(Refusal, match="from call to call"):
        DraftCompiler(1).build(Task(source, "state"), "cpp")


def test_a_recurrent_layer_may_be_the_module_itself() -> None:
    head, _, rest = module("x", "torch.randn(3, 5, 4)").partition("class Model")
    source = f"{head}class Model(nn.LSTM):\n    def __init__(self):\n        super().__init__(4, 6)\n\n\n{rest[rest.index('def get_inputs') :]}"
    wanted, got = (torch.utils._pytree.tree_leaves(value) for value in _outputs(source, "layer", 0))
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(
    ("body", "operator"),
    [("x[x > 0] * 2", "index"), ("x.nonzero() * 2", "nonzero"), ("x[(x > 0) & (x < 9)].sort()[0]", "index")],
)
def test_a_size_that_depends_on_values_is_refused_by_the_operator_that_makes_it(body: str, operator: str) -> None:
    with pytest.raises(Refusal, match=f"module: {operator}: the size of its result depends on the values"):
        DraftCompiler(1).build(Task(module(body), "module"), "cpp")


def test_a_branch_by_values_is_no_check() -> None:
    body = "x * 2 if (x > 0).any() else x * 3"
    with pytest.raises(Refusal, match="a branch or a number in forward depends on the values of tensors"):
        DraftCompiler(1).build(Task(module(body), "branch"), "cpp")


def test_random_numbers_are_not_left_to_torch() -> None:
    with pytest.raises(Refusal, match="random"):
        DraftCompiler(1).build(Task(module("F.gelu(torch.bernoulli(x.sigmoid()))"), "random"), "cpp")


def test_a_scripted_function_is_read_from_the_task() -> None:
    scripted = "@torch.jit.script\ndef scripted(x):\n    return x * torch.erf(x / 1.4)\n\n\nclass Model"
    source = module("scripted(x)").replace("class Model", scripted)
    assert DraftCompiler(1).build(Task(source, "scripted"), "cpp").steps


LOSS = "F.cross_entropy(self.head(x){cut}.reshape(-1, 50){cast}, y{labels}.reshape(-1))"


@pytest.mark.parametrize(("cut", "labels"), [("", ""), ("[:, :-1]", "[:, 1:]")], ids=["all", "all_but_the_last"])
def test_logits_that_no_cache_holds_are_made_some_rows_at_a_time(
    cut: str, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_chunks, "CHUNK_BYTES", 1000)
    source = module(
        LOSS.format(cut=cut, cast=".float()", labels=labels),
        "torch.randn(4, 6, 16), torch.randint(0, 50, (4, 6))",
        "x, y",
        "self.head = nn.Linear(16, 50)",
    )
    step = DraftCompiler(1).build(Task(source, "loss"), "cpp").steps[0]
    assert "for start in range(0, " in step.candidate.source and "(4, 6, 50)" not in step.candidate.source
    wanted, got = _outputs(source, "loss", 0)
    torch.testing.assert_close(got, wanted)


def test_logits_that_are_wanted_or_small_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("torch.randn(4, 6, 16), torch.randint(0, 50, (4, 6))", "x, y", "self.head = nn.Linear(16, 50)")
    loss = LOSS.format(cut="", cast="", labels="")
    assert "for start" not in DraftCompiler(1).build(Task(module(loss, *given), "small"), "cpp").steps[0].candidate.source
    monkeypatch.setattr(row_chunks, "CHUNK_BYTES", 1000)
    both = module(f"({loss}, self.head(x))", *given)
    assert _outputs(both, "both", 0)
    returned = "(lambda h: (h, F.cross_entropy(h.reshape(-1, 50), y.reshape(-1))))(self.head(x))"
    assert (
        "for start" not in DraftCompiler(1).build(Task(module(returned, *given), "returned"), "cpp").steps[0].candidate.source
    )


EXPERTS = """from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        config = MixtralConfig(hidden_size=16, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2)
        self.block = MixtralSparseMoeBlock(config).eval()
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.3)

    def forward(self, x):
        return self.block(x)
"""


@pytest.mark.rotates
def test_experts_are_products_of_rows_in_groups() -> None:
    pytest.importorskip("transformers")
    source = module("x", "torch.randn(2, 6, 16)").replace(
        "import torch.nn.functional as F\n", f"import torch.nn.functional as F\n{EXPERTS}"
    )
    source = source[: source.rindex("class Model")] + source[source.index("def get_inputs") :]
    step = DraftCompiler(1).build(Task(source, "experts"), "cpp").steps[0]
    assert step.candidate.source.count("F.grouped_mm(") == 2
    wanted, got = _outputs(source, "experts", 0)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


CACHED = """import torch
import torch.nn as nn
from transformers import DynamicCache, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

SMALL = dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, head_dim=8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = LlamaDecoderLayer(LlamaConfig(**SMALL, attn_implementation="sdpa"), 0).eval()

    def forward(self, x, cos, sin, cache=None):
        cache = DynamicCache() if cache is None else cache
        y = self.layer(x, position_embeddings=(cos, sin), past_key_values=cache, use_cache=True)
        return y, RETURNED


def get_inputs():
    return [torch.randn(2, 5, 32), torch.randn(1, 5, 8), torch.randn(1, 5, 8)]


def get_init_inputs():
    return []
"""


TENSORS = CACHED.replace("RETURNED", "tuple((layer.keys, layer.values) for layer in cache.layers)")


@pytest.mark.rotates
def test_a_decoder_layer_gives_the_tensors_of_its_cache() -> None:
    pytest.importorskip("transformers")
    wanted, got = _outputs(TENSORS, "tensors of a cache", 0)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_a_cache_itself_is_neither_taken_nor_given() -> None:
    pytest.importorskip("transformers")
    with pytest.raises(Refusal, match="returns a DynamicCache; return its layers' keys and values in a tuple"):
        DraftCompiler().build(Task(CACHED.replace("RETURNED", "cache"), "module"), "cpp")
    given = TENSORS.replace("torch.randn(1, 5, 8)]", "torch.randn(1, 5, 8), DynamicCache([(torch.randn(2, 2, 3, 8),) * 2])]")
    with pytest.raises(Refusal, match="takes a DynamicCache, which is larger in every call"):
        DraftCompiler().build(Task(given, "module"), "cpp")


def test_a_configuration_without_experts_is_left_as_it_is() -> None:
    pytest.importorskip("transformers")
    source = TENSORS.replace('LlamaConfig(**SMALL, attn_implementation="sdpa")', "SHARED")
    source = source.replace("\n\n\nclass", '\nSHARED = LlamaConfig(**SMALL, attn_implementation="sdpa")\n\n\nclass', 1)
    source = source.replace("return y, ", "assert SHARED._experts_implementation is None\n        return y, ")
    lower_task(Task(source, "module"))


def test_a_module_that_drops_is_written_as_it_is_judged_in_evaluation_mode() -> None:
    """As built it answers differently every time, so the judge compares it in evaluation mode; drafts of it were refused."""
    init = "self.c = nn.Conv2d(3, 4, 3); self.b = nn.BatchNorm2d(4); self.d = nn.Dropout(0.2)"
    given = module("self.d(F.relu(self.b(self.c(x))))", "torch.randn(2, 3, 8, 8)", init=init)
    lowered = lower_task(Task(given, "drops"))
    plan = lowered.plan(frozenset(("fuse_elementwise", "own_convolution")))
    assert len(plan.kernels) == 1 and "self.b.running_mean" in plan.buffers
