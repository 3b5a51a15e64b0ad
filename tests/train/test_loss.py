"""The loss: its value by hand, its gradient by finite differences and by autograd, and the head that never holds all logits."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from tiny import one_thread, random_rows, tiny_llama  # noqa: E402, F401

from bottega.core.errors import TrainingError  # noqa: E402
from bottega.train.lm_head_loss import head_logprobs, head_loss  # noqa: E402
from bottega.train.loss import denominator, means, measures, token_losses  # noqa: E402
from bottega.train.optimiser import (  # noqa: E402
    Optimiser,
    rate,
    update,
)
from bottega.train.packing import by_row, pack  # noqa: E402
from bottega.train.policy import Policy, with_logprobs  # noqa: E402
from bottega.train.settings import LossSettings, OptimiserSettings  # noqa: E402

NAN = math.nan


def streams(count: int, **given: Any) -> dict[str, Any]:
    usual = {"imitation": 0.0, "policy": 1.0, "advantage": 1.0, "rollout": NAN, "old": NAN, "reference": NAN}
    return {name: torch.tensor(given.get(name, [value] * count), dtype=torch.float64) for name, value in usual.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),
        (1.5, 2.0, -2.56),  # clipped at 1.28
        (0.5, 2.0, -1.0),  # a good token that became rare is not clipped
        (0.5, -2.0, 1.6),  # clipped at 0.8
        (1.5, -2.0, 3.0),  # a bad token that became likely is not clipped
    ],
)
def test_the_clipped_gradient_by_hand(ratio: float, advantage: float, expected: float) -> None:
    given = streams(1, old=[-1.0], advantage=[advantage])
    logprobs = torch.tensor([-1.0 + math.log(ratio)], dtype=torch.float64, requires_grad=True)
    loss = token_losses(logprobs, given, LossSettings()).sum()
    assert float(loss.detach()) == pytest.approx(expected)
    loss.backward()
    clipped = (ratio > 1.28 and advantage > 0) or (ratio < 0.8 and advantage < 0)
    assert float(logprobs.grad) == pytest.approx(0.0 if clipped else -ratio * advantage)


def test_imitation_is_the_negative_log_likelihood() -> None:
    given = streams(2, imitation=[1.0, 0.5], policy=[0.0, 0.0])
    assert token_losses(torch.tensor([-2.0, -4.0]), given, LossSettings()).tolist() == [2.0, 2.0]


def test_the_weight_for_a_mismatch_is_truncated() -> None:
    given = streams(3, old=[-1.0, -1.0, -1.0], rollout=[-1.5, -5.0, NAN])
    losses = token_losses(torch.full((3,), -1.0, dtype=torch.float64), given, LossSettings(truncate=2.0))
    assert losses.tolist() == pytest.approx([-math.exp(0.5), -2.0, -1.0])
    plain = token_losses(torch.full((3,), -1.0, dtype=torch.float64), given, LossSettings(truncate=None))
    assert plain.tolist() == pytest.approx([-1.0, -1.0, -1.0])


def test_a_divergence_from_the_reference_costs() -> None:
    given = streams(1, reference=[-1.0], advantage=[0.0])
    found = token_losses(torch.tensor([-1.5], dtype=torch.float64), given, LossSettings(kl=0.1))
    assert float(found) == pytest.approx(0.1 * (math.exp(0.5) - 0.5 - 1))
    assert float(token_losses(torch.tensor([-1.0], dtype=torch.float64), given, LossSettings(kl=0.1))) == pytest.approx(0.0)


def test_gradients_agree_with_finite_differences() -> None:
    given = streams(
        6, imitation=[0, 1, 0.5, 0, 0, 0], policy=[1, 1, 0, 1, 1, 1], advantage=[1, -2, 0, 0.5, -1, 3], old=[-1.1, -0.9, NAN, -2.0, -1.0, -1.2],
        rollout=[-1.0, -1.3, NAN, -2.5, -1.0, NAN], reference=[-1.0, -2.0, NAN, -2.2, NAN, -0.7],
    )  # fmt: skip
    logprobs = torch.tensor([-1.0, -1.1, -0.4, -2.1, -1.05, -1.1], dtype=torch.float64, requires_grad=True)
    # With `old` given everywhere it counts, the loss is a plain function of the log-probs.
    assert torch.autograd.gradcheck(
        lambda values: token_losses(values, given, LossSettings(kl=0.2)).sum(), (logprobs,), eps=1e-7
    )


def test_a_token_without_weight_may_have_any_logprob() -> None:
    given = streams(2, imitation=[0.0, 1.0], policy=[0.0, 0.0])
    logprobs = torch.tensor([-math.inf, -1.0], dtype=torch.float64, requires_grad=True)
    loss = token_losses(logprobs, given, LossSettings()).sum()
    loss.backward()
    assert float(loss.detach()) == 1.0
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0, -1.0]


def test_the_head_gives_what_autograd_gives_through_all_logits() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(13, 8, requires_grad=True), torch.randn(31, 8, requires_grad=True)
    targets = torch.randint(0, 31, (13,))
    given = {
        name: value.float() for name, value in streams(13, old=[-3.0] * 13, advantage=[float(n - 6) for n in range(13)]).items()
    }
    settings = LossSettings()

    def loss(logprobs: Any, part: slice) -> Any:
        return token_losses(logprobs, {name: stream[part] for name, stream in given.items()}, settings)

    value, logprobs, entropy = head_loss(hidden, weight, targets, loss, chunk=4)
    (value / 3).backward()
    got = hidden.grad.clone(), weight.grad.clone()  # type: ignore[union-attr]
    hidden.grad = weight.grad = None
    table = F.log_softmax(hidden @ weight.t(), -1)
    plain = table.gather(-1, targets[:, None])[:, 0]
    (loss(plain, slice(None)).sum() / 3).backward()
    assert torch.allclose(logprobs, plain, atol=1e-5)
    assert torch.allclose(entropy, -(table.exp() * table).sum(-1), atol=1e-5)
    assert torch.allclose(got[0], hidden.grad, atol=1e-5)  # type: ignore[arg-type]
    assert torch.allclose(got[1], weight.grad, atol=1e-5)  # type: ignore[arg-type]
    assert torch.allclose(head_logprobs(hidden, weight, targets, chunk=5)[0], plain, atol=1e-5)


def test_log_probs_and_gradients_are_those_of_the_temperature() -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(5, 8, requires_grad=True), torch.randn(31, 8)
    targets = torch.randint(0, 31, (5,))
    value, logprobs, _ = head_loss(hidden, weight, targets, lambda own, part: -own, chunk=2, temperature=0.7)
    value.backward()
    got, hidden.grad = hidden.grad, None
    plain = F.log_softmax(hidden @ weight.t() / 0.7, -1).gather(-1, targets[:, None])[:, 0]
    (-plain.sum()).backward()
    assert torch.allclose(logprobs, plain, atol=1e-5)
    assert torch.allclose(got, hidden.grad, atol=1e-5)  # type: ignore[arg-type]
    assert torch.allclose(head_logprobs(hidden, weight, targets, temperature=0.7)[0], plain, atol=1e-5)
    warm, cold = Policy(tiny_llama()), Policy(tiny_llama(), temperature=0.5)
    packed = warm.pack(random_rows(2))
    assert not torch.allclose(warm.logprobs(packed)[0], cold.logprobs(packed)[0], atol=1e-3)


def test_a_frozen_head_gets_no_gradient() -> None:
    hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(7, 4)
    value, _, _ = head_loss(hidden, weight, torch.tensor([1, 2, 3]), lambda logprobs, part: -logprobs)
    value.backward()
    assert hidden.grad is not None


def test_the_whole_models_gradient_agrees_with_finite_differences() -> None:
    policy = Policy(tiny_llama())
    packed = policy.pack(random_rows(3))
    policy.loss(packed, LossSettings(normalise="tokens")).loss.backward()
    parameters = policy.trainable()
    size = math.sqrt(sum(float(each.grad.double().square().sum()) for each in parameters if each.grad is not None))

    def loss(step: float) -> float:
        """After a step of this length along the gradient."""
        with torch.no_grad():
            for each in parameters:
                each.add_(each.grad, alpha=step / size)
            value = -float((policy.logprobs(packed)[0].double() * packed.streams["imitation"]).sum())
            for each in parameters:
                each.sub_(each.grad, alpha=step / size)
        return value

    assert (loss(1e-2) - loss(-1e-2)) / 2e-2 == pytest.approx(size, rel=5e-3)


def test_the_denominator_knows_answers_and_tokens() -> None:
    packed = pack(random_rows(4))
    assert denominator([packed, packed], LossSettings(constant=10.0)) == 80.0
    assert denominator([packed], LossSettings(normalise="tokens")) == packed.counted


def test_figures_of_a_step_are_what_they_say() -> None:
    given = streams(
        4, policy=[1, 1, 1, 0], old=[-1.0, -1.0, -1.0, NAN], rollout=[-1.5, -1.0, -3.0, NAN], advantage=[1.0, -1.0, 1.0, 0.0]
    )
    logprobs = torch.tensor([-0.5, -1.0, -1.0, -9.0], dtype=torch.float64)
    sums = measures(logprobs, torch.ones(4, dtype=torch.float64), given, LossSettings(truncate=2.0))
    told = means({name: float(value) for name, value in sums.items()})
    assert told["clipped_share"] == pytest.approx(1 / 3)
    assert told["mismatch"] == pytest.approx((0.5 + 0 + 2) / 3)
    assert told["truncated_share"] == pytest.approx(1 / 3)
    assert told["entropy"] == 1.0


def test_old_logprobs_fill_the_tokens_that_count() -> None:
    policy, rows = Policy(tiny_llama()), random_rows(5)
    packs = policy.packs(rows, 32)
    assert len(packs) > 1
    filled = with_logprobs(rows, by_row(packs, [policy.logprobs(pack)[0] for pack in packs]), "old")
    for row in filled:
        assert (~torch.tensor(row.old).isnan()).tolist() == row.learned.tolist()
        direct = policy.logprobs(policy.pack([row]))[0]
        assert torch.tensor(row.old[row.learned]).tolist() == pytest.approx(direct.tolist(), abs=1e-5)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.25), (3, 1.0), (4, 1.0), (54, 0.55), (104, 0.1), (500, 0.1)])
def test_the_rate_rises_and_falls(step: int, expected: float) -> None:
    settings = OptimiserSettings(lr=0.5, warmup=4, least=0.1)
    assert rate(settings, step, 104) == pytest.approx(0.5 * expected)
    assert rate(OptimiserSettings(lr=0.5, schedule="constant"), step, 104) == 0.5


def test_a_step_that_is_no_number_changes_nothing_and_says_so_and_several_end_the_run() -> None:
    policy, rows = Policy(tiny_llama()), random_rows(4)
    optimiser = Optimiser(policy.trainable(), OptimiserSettings(lr=0.1, bad_steps=3))
    packs, settings = [policy.pack(rows)], LossSettings(normalise="tokens")
    weight = policy.model.model.layers[0].mlp.up_proj.weight
    good = weight[0, 0].item()
    with torch.no_grad():
        weight[0, 0] = NAN
    before = {name: value.detach().clone() for name, value in policy.model.named_parameters()}
    for number in range(2):
        updated = update(policy, optimiser, packs, settings, number, 10)
        assert "no number" in updated.skipped
    assert all(
        torch.equal(
            value,
            before[name],
        )
        or value.isnan().any()
        for name, value in policy.model.named_parameters()
    )
    with torch.no_grad():
        weight[0, 0] = good
    assert update(policy, optimiser, packs, settings, 2, 10).skipped == ""
    assert optimiser.bad == 0, "a good step ends the row of bad ones"
    with torch.no_grad():
        weight[0, 0] = NAN
    with pytest.raises(TrainingError, match="3 steps in a row"):
        for number in range(3):
            update(policy, optimiser, packs, settings, number, 10)


def test_an_update_without_a_token_to_learn_is_refused() -> None:
    policy = Policy(tiny_llama())
    optimiser = Optimiser(policy.trainable(), OptimiserSettings())
    with pytest.raises(TrainingError, match="everything was dropped"):
        update(policy, optimiser, [], LossSettings(), 0, 1)


def test_learning_lowers_the_loss_and_a_negative_advantage_makes_an_answer_rarer() -> None:
    from dataclasses import replace

    policy, rows = Policy(tiny_llama()), random_rows(6)
    optimiser = Optimiser(policy.trainable(), OptimiserSettings(lr=3e-3, schedule="constant"))
    losses = [update(policy, optimiser, [policy.pack(rows)], LossSettings(normalise="tokens"), n, 30).loss for n in range(30)]
    assert losses[-1] < losses[0] - 0.5
    learned = rows[0].learned
    nothing = rows[0].imitation * 0
    punished = replace(rows[0], imitation=nothing, policy=learned.astype("float32"), advantage=-learned.astype("float32"))
    before = float(policy.logprobs(policy.pack([punished]))[0].sum())
    update(policy, optimiser, [policy.pack([punished])], LossSettings(constant=1.0), 0, 1)
    assert float(policy.logprobs(policy.pack([punished]))[0].sum()) < before - 0.05
