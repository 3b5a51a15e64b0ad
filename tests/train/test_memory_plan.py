"""The arithmetic of a run's memory: what it counts is there, presets fit the GPUs that they name, and too few are refused."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tiny import tiny_llama  # noqa: E402

from bottega.core.errors import UsageError  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.memory import GIB, ROOM, ModelSize, least_ranks, memory_plan, require_fit  # noqa: E402

QWEN3_8B = ModelSize(36, 4096, 12288, 32, 8, 128, 151936, tied=False)
QWEN3_14B = ModelSize(40, 5120, 17408, 40, 8, 128, 151936, tied=False)
STALE = ["rollout.staleness=1", "rejection.mismatch.on=false"]
PRESETS = [("8b-lora", QWEN3_8B, 1), ("8b-full", QWEN3_8B, 8), ("14b-full,davinci", QWEN3_14B, 16)]
CARD = 80 * GIB
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tied", [True, False])
def test_a_models_parameters_are_counted_but_for_the_norms(tied: bool) -> None:
    model = tiny_llama(tie_word_embeddings=tied)
    norms = sum(value.numel() for name, value in model.named_parameters() if "norm" in name)
    assert ModelSize.of(model.config).parameters == sum(value.numel() for value in model.parameters()) - norms


def test_an_adapters_parameters_are_counted() -> None:
    peft = pytest.importorskip("peft")
    model = tiny_llama()
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = sum(value.numel() for value in adapted.parameters() if value.requires_grad)
    assert ModelSize.of(model.config).adapter(4) == trained


def test_the_sizes_are_those_of_the_published_models() -> None:
    assert (round(QWEN3_8B.parameters / 1e9, 1), round(QWEN3_14B.parameters / 1e9, 1)) == (8.2, 14.8)


@pytest.mark.parametrize(("preset", "size", "ranks"), PRESETS)
def test_a_preset_fits_the_gpus_that_it_names(preset: str, size: ModelSize, ranks: int) -> None:
    config = read_config("rl", preset)
    assert (config.sharding.ranks or 1) == ranks
    assert least_ranks(size, config, CARD) == ranks, "and fewer do not"
    require_fit(size, config, ranks, CARD)
    if ranks > 1:
        with pytest.raises(UsageError, match=rf"weights .*and one has 80 GiB: start {ranks} ranks by torchrun"):
            require_fit(size, config, 1, CARD)


@pytest.mark.parametrize(("preset", "size", "ranks"), PRESETS)
def test_figures_beside_the_presets_are_those_of_the_plan(preset: str, size: ModelSize, ranks: int) -> None:
    """In the preset's own file and in the manual's table, in GiB."""
    plan = memory_plan(size, read_config("rl", preset), ranks)
    slices = plan.weights + plan.gradients + plan.moments
    parts = [slices, plan.gathered, plan.activations, plan.head, plan.decoder, plan.cache]
    figures = [f"{part / GIB:.1f}" for part in parts]
    row = f"| `{preset}` | {ranks} | {' | '.join(figures)} | {plan.total / GIB:.0f} |".replace("| 0.0 |", "| |")
    assert row in (ROOT / "docs/reference/training.md").read_text()
    name = preset.partition(",")[0]
    beside = (ROOT / f"src/bottega/train/presets/{name}.toml").read_text()
    apart = ["15.3", "0.7"] if name == "8b-lora" else figures[:1]  # what is frozen, and what is trained
    missing = [each for each in (*apart, *figures[1:], f"{plan.total / GIB:.0f}") if each != "0.0" and f" {each}" not in beside]
    assert not missing, missing


def test_what_is_sharded_shrinks_and_what_is_not_stays() -> None:
    config = read_config("rl", "8b-full")
    eight, sixteen = (memory_plan(QWEN3_8B, config, ranks) for ranks in (8, 16))
    assert eight.weights + eight.gradients + eight.moments == 16 * QWEN3_8B.parameters / 8
    assert sixteen.moments == eight.moments / 2
    assert (sixteen.activations, sixteen.head, sixteen.decoder) == (eight.activations, eight.head, eight.decoder)
    away = read_config("rl", "8b-full", None, ["sharding.offload=true"])
    assert memory_plan(QWEN3_8B, away, 1).total < ROOM * CARD, "with the weights in the memory of the CPU one GPU does"
    assert memory_plan(QWEN3_8B, config, 8, rollouts=False).decoder == 0
    ahead, now = (memory_plan(QWEN3_8B, read_config("rl", "8b-lora", None, more), 1) for more in (STALE, []))
    assert ahead.decoder - now.decoder == 2 * QWEN3_8B.parameters, "answers that are drawn meanwhile need a copy of the model"


@pytest.mark.parametrize(
    ("overrides", "fits"),
    [([], True), (["rollout.vllm_memory=0.85"], False), (STALE, True), ([*STALE, "rollout.vllm_memory=0.6"], False)],
)
def test_vllm_has_room_beside_what_is_held_while_it_draws(overrides: list[str], fits: bool) -> None:
    """It sleeps while the model learns, unless answers are drawn meanwhile."""
    config = read_config("rl", "8b-lora", None, ["rollout.engine=vllm", *overrides])
    with nullcontext() if fits else pytest.raises(UsageError, match=r"vLLM takes .* lower it to 0\.[48]\d? or less"):
        require_fit(QWEN3_8B, config, 1, CARD, rollouts=False)
