from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from bottega.backbone import sampler  # noqa: E402
from bottega.backbone.sampler import noise, philox, sample  # noqa: E402

CPU = torch.device("cpu")


def test_philox_gives_the_published_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "ROUNDS", 10)  # those of Salmon et al. are for ten rounds
    zero = torch.zeros(1, dtype=torch.int64)
    assert [word.item() for word in philox(zero, zero, zero)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_noise_is_gumbels() -> None:
    found = noise([3], [11], 200_000, CPU)
    assert abs(found.mean().item() - 0.5772) < 0.02
    assert abs(found.var().item() - math.pi**2 / 6) < 0.05
    assert found.isfinite().all()


def test_noise_differs_by_seed_and_position_and_not_by_company() -> None:
    seeds, positions = [3, 4, 3, 3 + 2**40], [11, 11, 12, 11]
    together = noise(seeds, positions, 4001, CPU)
    assert torch.equal(together, torch.cat([noise([seed], [at], 4001, CPU) for seed, at in zip(seeds, positions)]))
    alike = torch.corrcoef(together) - torch.eye(4)
    assert alike.abs().max() < 0.08


def test_tokens_come_as_often_as_the_softmax_says() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0, 0.5, 1.5])
    count = 40_000
    ids = (logits / 0.8 + noise(list(range(count)), [5] * count, 7, CPU)).argmax(-1)
    shares = torch.bincount(ids, minlength=7) / count
    assert (shares - (logits / 0.8).softmax(-1)).abs().max() < 4 * math.sqrt(0.25 / count)
    sampled, logprobs = sample(logits.expand(50, -1), [0.8] * 50, list(range(50)), [5] * 50)
    assert sampled == ids[:50].tolist()
    told = (logits / 0.8).log_softmax(-1)
    assert logprobs == pytest.approx([told[i].item() for i in sampled], abs=1e-5)


def test_a_draw_does_not_depend_on_the_other_rows() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 301)
    kinds = ([1.0, 0.5, 0.0, 2.0, 1.0, 1.0], [1, 2, 3, 4, 5, 6], [9, 8, 7, 6, 5, 4])
    together, _ = sample(logits, *kinds)
    alone = [sample(logits[i : i + 1], *([each[i]] for each in kinds))[0][0] for i in range(6)]
    assert together == alone
    assert together[2] == logits[2].argmax().item()
