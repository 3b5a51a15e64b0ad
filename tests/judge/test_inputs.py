"""Inputs are fresh every time; a variant changes values and keeps what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from bottega.judge.input_variants import STRONGEST
from bottega.judge.inputs import InputSource, digest, same_bytes
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.tensor_transport import flat
from bottega.judge.variants import PARTS, QUICK_VARIANTS, VARIANTS, planned


def test_two_draws_differ_whatever_the_task_seeds_before() -> None:
    torch.manual_seed(0)
    source = InputSource(lambda: [torch.randn(10), torch.randint(0, 1000, (10,))], "cpu")
    first = source.draw()
    torch.manual_seed(0)
    second = source.draw()
    assert all(not torch.equal(a, b) for a, b in zip(first.tensors, second.tensors))


@pytest.mark.parametrize("variant", VARIANTS)
def test_draw_keeps_shapes_and_types_and_fixed_tensors(variant: str) -> None:
    labels = torch.arange(10)
    source = InputSource(lambda: [torch.randn(10, 20).half(), labels, {"scale": 2.5, "mask": labels > 3}], "cpu")
    drawn = source.draw(variant)
    assert [(t.dtype, tuple(t.shape)) for t in drawn.tensors] == [
        (torch.float16, (10, 20)),
        (torch.int64, (10,)),
        (torch.bool, (10,)),
    ]
    assert torch.equal(drawn.tensors[1], labels)
    assert torch.equal(drawn.tensors[2], labels > 3)
    assert drawn.variant == variant


def test_draw_gives_memory_of_its_own() -> None:
    kept = torch.randn(10, 10)
    source = InputSource(lambda: [kept[2:], kept.expand(3, 10, 10), kept], "cpu")
    drawn = source.draw("mixed")
    drawn.tensors[0].zero_()
    assert not bool((kept[2:] == 0).any())


def test_bending_does_not_reach_a_tensor_that_the_task_keeps() -> None:
    """A module-level constant that get_inputs returns must be the same in the next draw."""
    kept = torch.randn(50, 50)
    before = kept.clone()
    source = InputSource(lambda: [kept], "cpu")
    source.draw("offset")
    assert torch.equal(kept, before)


LAYOUTS = {
    "channels last": (lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), (60, 1, 15, 3)),
    "transposed": (lambda: torch.randn(4, 3).t(), (1, 3)),
    "gaps": (lambda: torch.randn(4, 8)[:, ::2], (4, 1)),
    "expanded": (lambda: torch.randn(1, 4).expand(3, 4), (4, 1)),
    "overlapping": (lambda: torch.randn(9).unfold(0, 3, 1), (3, 1)),
    "slice": (lambda: torch.randn(9)[3:], (1,)),
    "empty": (lambda: torch.randn(3, 0, 2), (2, 2, 1)),
    "empty by a step": (lambda: torch.randn(3, 4)[:, 4::2], None),
    "no dimension": (lambda: torch.randn(()), ()),
    "conjugate": (lambda: torch.randn(4, dtype=torch.complex64).conj(), (1,)),
    "negative": (lambda: torch.randn(4, dtype=torch.complex64).conj().imag, (1,)),
    "parameter": (lambda: torch.nn.Parameter(torch.randn(4).double()), (1,)),
    "wants a gradient": (lambda: torch.randn(4, requires_grad=True) * 2, (1,)),
    "eight bits": (lambda: torch.randn(4).to(torch.float8_e4m3fn), (1,)),
    "unsigned": (lambda: torch.randint(0, 9, (4,)).to(torch.uint16), (1,)),
}


@pytest.mark.parametrize("variant", ["plain", "spiked", "offset"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_becomes_dense_memory_of_its_own_with_the_same_values(name: str, variant: str) -> None:
    make, stride = LAYOUTS[name]
    kept = make()
    source = InputSource(lambda: [kept], "cpu")
    for _ in range(2):
        (tensor,) = source.draw(variant).tensors
        assert (type(tensor), tensor.shape, tensor.dtype) == (torch.Tensor, kept.shape, kept.dtype)
        assert stride is None or tensor.stride() == stride
        assert not tensor.requires_grad and not tensor.is_conj() and not tensor.is_neg()
        assert flat(tensor).numel() == tensor.numel()
        assert same_bytes(tensor, tensor.clone())
        if variant == "plain":
            same = tensor == kept
            assert bool(same.all())


def test_inputs_that_share_memory_get_memory_of_their_own() -> None:
    kept = torch.randn(6, 6)
    drawn = InputSource(lambda: [kept, kept[:3], kept.t(), kept.view(-1)], "cpu").draw("mixed")
    assert len({tensor.data_ptr() for tensor in drawn.tensors}) == 4
    assert [tuple(tensor.shape) for tensor in drawn.tensors] == [(6, 6), (3, 6), (6, 6), (36,)]


def test_a_single_tensor_is_a_sequence_of_one() -> None:
    assert len(InputSource(lambda: torch.randn(3), "cpu").draw().tensors) == 1


def test_inputs_by_name_reach_the_module() -> None:
    def forward(x: torch.Tensor, *, scale: float = 1.0, **others: torch.Tensor) -> torch.Tensor:
        return x * scale + others["y"]

    source = InputSource(lambda: {"y": torch.ones(3), "x": torch.ones(3), "scale": 2.0}, "cpu", forward)
    drawn = source.draw()
    assert drawn.call(forward, drawn.tensors).tolist() == [3.0] * 3
    assert drawn.call(forward, [tensor * 2 for tensor in drawn.tensors]).tolist() == [6.0] * 3


@dataclass
class Batch:
    x: torch.Tensor


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (Batch(torch.ones(2)), "dataclass"),
        (torch.eye(2).to_sparse(), "sparse"),
        (object(), "type object"),
        ({torch.ones(1): 1}, "key"),
        (torch.ones(1).numpy(), "ndarray"),
    ],
    ids=["dataclass", "sparse", "object", "key", "array"],
)
def test_inputs_that_cannot_cross_are_refused_in_one_sentence(value: object, word: str) -> None:
    with pytest.raises(InvalidTask, match=word) as raised:
        InputSource(lambda: [torch.randn(2), value], "cpu").draw()
    assert str(raised.value).startswith("get_inputs() returns a ")


def test_same_bytes_sees_every_bit() -> None:
    nan = torch.tensor([float("nan"), -0.0, 1.0])
    assert same_bytes(nan, nan.clone())
    assert not same_bytes(nan, torch.tensor([float("nan"), 0.0, 1.0]))
    for size in (1, 2, 3, 5, 8, 9):
        bytes_ = torch.arange(size, dtype=torch.uint8)
        other = bytes_.clone()
        assert same_bytes(bytes_, other)
        other[-1] += 1
        assert not same_bytes(bytes_, other)
    assert same_bytes(torch.empty(0), torch.empty(0))


def test_flat_is_in_memory_order() -> None:
    tensor = torch.arange(6).reshape(2, 3).t()
    assert flat(tensor).tolist() == [0, 1, 2, 3, 4, 5]


def test_quick_variants_are_some_of_all() -> None:
    assert set(QUICK_VARIANTS) < set(VARIANTS)
    assert QUICK_VARIANTS[0] == VARIANTS[0] == "plain"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_digest_is_of_contents_and_their_order(dtype: torch.dtype) -> None:
    """A task that draws permutations draws other contents every time."""
    one = (torch.arange(1003) % 120).to(dtype)
    assert digest(one) == digest(one.clone())
    assert digest(one) != digest(one.flip(0))
    assert digest(one) != digest(one.roll(8))
    assert digest(one[:1000]) != digest(one[:1000].view(10, 100))


@pytest.mark.parametrize("empty", [torch.empty(0), torch.empty(3, 0, dtype=torch.int64)])
def test_nothing_has_a_digest_too(empty: torch.Tensor) -> None:
    assert digest(empty) == digest(empty.clone())


def test_a_form_that_changes_nothing_is_no_weaker_one() -> None:
    def positive() -> list[torch.Tensor]:
        values = torch.randn(32, 32)
        return [values @ values.mT + 32 * torch.eye(32)]

    source = InputSource(positive, "cpu")
    source.draw("spiked")
    assert source.kinds == ["symmetric"]
    assert [source.weaken("spiked") for _ in range(5)] == [True, True, True, True, False]


def test_one_variant_is_weakened_at_a_time_until_it_cannot() -> None:
    source = InputSource(lambda: [torch.rand(1 << 12) + 0.1], "cpu")
    assert [source.weaken("spiked") for _ in range(6)] == [True, True, True, True, True, False]
    assert source.weaken("offset") and not source.weaken("offset")
    assert not source.weaken("concentrated")
    assert bool((source.draw("spiked").tensors[0] >= 0).all())
    assert source.strength("heavy") == STRONGEST
    assert bool((source.draw("heavy").tensors[0] < 0).any())


def test_tables_that_never_change_change_a_little_from_call_to_call() -> None:
    """What was made of them could be kept otherwise."""
    table, near = torch.arange(64 * 64.0).view(64, 64).sin(), torch.ones(64, 64, dtype=torch.bool).tril(3).triu(-3)
    source = InputSource(lambda: [torch.randn(64, 64), table, near], "cpu")
    drawn = [source.draw().tensors for _ in range(4)]
    assert torch.equal(drawn[0][1], drawn[1][1]), "that it never changes is seen by the first two"
    assert not torch.equal(drawn[2][1], drawn[3][1]) and torch.allclose(drawn[3][1], table, rtol=0.03)
    assert int((drawn[2][2] != near).sum()) in (1, 2) and torch.equal(drawn[2][2], drawn[2][2].T)
    assert torch.equal(table, torch.arange(64 * 64.0).view(64, 64).sin()), "the task keeps what is its own"


def test_tables_of_integers_change_too_where_no_other_input_may_tell_the_same() -> None:
    positions, begins = torch.arange(64), torch.tensor([0, 3, 9, 20, 64])
    for table in (positions, begins, torch.arange(64) * 7 % 32):
        source = InputSource(lambda table=table: [torch.randn(64, 64), table], "cpu")
        drawn = [source.draw().tensors[1] for _ in range(4)]
        assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[3], table)
        assert not torch.equal(drawn[2], table) and set(drawn[2].tolist()) <= set(range(65))
    both = InputSource(lambda: [torch.randn(64, 64), positions, begins], "cpu")
    assert [torch.equal(both.draw().tensors[1], positions) for _ in range(4)] == [True] * 4

    def only_as_drawn(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        assert torch.equal(table, positions)
        return x

    refused = InputSource(lambda: [torch.randn(64, 64), positions], "cpu", only_as_drawn)
    assert [torch.equal(refused.draw().tensors[1], positions) for _ in range(4)] == [True] * 4


def test_numbers_of_variants_are_such_as_a_lower_precision_rounds_all_to_one_side() -> None:
    source = InputSource(lambda: [torch.randn(64, 64)], "cpu")
    for up in (True, False):
        source.tilted = up
        varied = source.draw("mixed").tensors[0]
        assert bool(((varied.bfloat16().float().abs() < varied.abs()) == up).all())
        plain = source.draw().tensors[0]
        assert 0.3 < float((plain.bfloat16().float().abs() < plain.abs()).float().mean()) < 0.7


def test_variants_are_not_worn_down_from_candidate_to_candidate() -> None:
    source = InputSource(lambda: [torch.randn(40, 40)], "cpu")
    strongest = source.strength("spiked")
    source.answered("spiked")
    weaker = [source.weaken("spiked"), source.weaken("offset")]  # draws without an answer, the one of them by chance
    source.answered("spiked")
    source.answered("offset")
    source.restore()
    assert all(weaker) and source.strength("spiked") == strongest != source.strength("offset")


@pytest.mark.parametrize("count", [8, 12])
def test_what_has_no_trial_is_among_the_first_timed_calls(count: int) -> None:
    for accepted in (["plain", "spiked", *PARTS], ["plain", "spiked", "mixed"], ["plain"], [*VARIANTS]):
        plan = planned(accepted, count)
        assert len(plan) == count and set(plan) <= set(accepted)
        assert set(accepted) - {"plain", "spiked"} <= set(plan) or len(accepted) > count // 2 + 2
