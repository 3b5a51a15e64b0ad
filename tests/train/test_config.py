"""Settings: presets, files and overrides, and what is told of a key or a value that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottega.core.errors import UsageError
from bottega.core.settings import changed, keys, preset_names
from bottega.train.config import PRESETS, Stage, read_config
from bottega.train.settings import Config


@pytest.mark.parametrize("stage", ["sft", "rl"])
@pytest.mark.parametrize("name", [*preset_names(PRESETS), "14b-full,davinci", "one-gpu,cuda-agent"])
def test_presets_can_be_read(name: str, stage: Stage) -> None:
    config = read_config(stage, name)
    assert config.loss.normalise == ("tokens" if stage == "sft" else "answers")


def test_the_papers_settings_are_the_papers() -> None:
    rl, sft = read_config("rl", "14b-full,davinci"), read_config("sft", "14b-full,davinci")
    assert (rl.optimiser.lr, rl.optimiser.clip, rl.loss.clip_low, rl.loss.clip_high, rl.loss.kl) == (1e-6, 1.0, 0.2, 0.28, 0.0)
    assert (rl.rollout.schemes, rl.rollout.samples, rl.rollout.turns, rl.rollout.summaries, rl.rollout.tasks) == (
        3,
        4,
        3,
        8,
        16,
    )
    assert (rl.rejection.mismatch.low, rl.rejection.mismatch.high, rl.rejection.mismatch.veto) == (0.999, 1.001, 1e-4)
    assert (rl.rejection.coverage.threshold, rl.rejection.coverage.width, rl.loss.constant) == (0.3, 0.1, 1000.0)
    assert (rl.advantage.weights.select, rl.advantage.weights.summarise, rl.reward.gamma) == (0.3, 0.5, 1.0)
    assert (sft.optimiser.lr, sft.data.batch_rows, sft.data.epochs, sft.data.longest) == (2e-5, 64, 4, 32768)


def test_a_recipe_lies_over_a_machine_and_leaves_it_its_own() -> None:
    config = read_config("rl", "one-gpu, kevin")
    assert (config.reward.name, config.advantage.name, config.reward.gamma, config.optimiser.clip) == (
        "kevin",
        "grpo",
        0.4,
        0.05,
    )
    assert (config.model.device, config.data.pack_tokens) == ("cuda", 32768)
    assert read_config("rl", "one-gpu,drkernel").rejection.mismatch.low == 0.98, "a decoder in bf16"
    assert read_config("rl", "drkernel").rejection.mismatch.low == 0.999


def test_one_gpu_waits_less_for_a_kernel_and_leaves_room_beside_the_model() -> None:
    assert read_config("rl", None).rollout.timeout == 120
    rollout = read_config("rl", "one-gpu").rollout
    assert (rollout.timeout, rollout.judge_workers) == (30, "auto")


@pytest.mark.parametrize(
    ("value", "told"),
    [("0", "greater than 0"), ("86401", "less than or equal to 86400"), ("inf", "finite"), ("soon", "number")],
)
def test_a_timeout_out_of_range_is_told(value: str, told: str) -> None:
    with pytest.raises(UsageError, match=rf"rollout\.timeout = .*{value}.*: .*{told}"):
        read_config("rl", None, None, [f"rollout.timeout={value}"])


def test_a_file_lies_over_a_preset_and_overrides_over_both(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[optimiser]\nclip = 0.5\n[data]\nlongest = 32000\n[sft.optimiser]\nlr = 3e-4\n[rl.optimiser]\nlr = 1e-7\n")
    config = read_config(
        "sft", "one-gpu", file, ["optimiser.warmup=7", "model.lora.rank = 8", "model.name=some/model", "loss.truncate=none"]
    )
    assert (config.optimiser.lr, config.optimiser.clip, config.optimiser.warmup) == (3e-4, 0.5, 7)
    assert config.data.longest == 32000, "a part of a file was judged without what lies under it"
    assert config.model.lora is not None
    assert (config.model.lora.rank, config.model.name, config.loss.truncate) == (8, "some/model", None)
    assert read_config("rl", "one-gpu", file).optimiser.lr == 1e-7


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("optimiser.lrr=1", "no setting optimiser.lrr; did you mean optimiser.lr"),
        ("lr=1", "did you mean optimiser.lr"),
        ("modl.name=x", "did you mean model"),
        ("loss.colour=1", "loss has clip_high, clip_low"),
        ("optimiser.lr=-1", "optimiser.lr = -1: .*greater than 0"),
        ("optimiser.lr=fast", "optimiser.lr = 'fast'"),
        ("reward.name=davinchi", "unknown reward 'davinchi'; use davinci, drkernel"),
        ("data.longest=99999", "must fit into pack_tokens"),
        ("optimiser.lr", "section.key=value"),
        ("optimiser.clip=nan", "finite"),
    ],
)
def test_a_mistake_is_named_with_what_was_meant(override: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_config("sft", None, None, [override])


@pytest.mark.parametrize(
    ("stage", "override", "told"),
    [
        ("rl", "data.batch_rows=256", "data.batch_rows has no effect in RL: an update takes all"),
        ("rl", "data.batch_tokens=9999", "rollout.tasks, schemes and samples"),
        ("rl", "log.eval_rows=3", "data.validation"),
        ("sft", "rollout.tasks=3", "rollout.tasks has no effect in SFT"),
        ("sft", "rejection.mismatch.low=0.5", "nothing is drawn and judged"),
    ],
)
def test_what_a_stage_does_not_read_is_refused_and_not_ignored(stage: Stage, override: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        read_config(stage, None, None, [override])
    key, _, value = override.partition("=")
    section, _, name = key.rpartition(".")
    file = tmp_path / "own.toml"
    file.write_text(f"[{stage}.{section}]\n{name} = {value}\n")
    with pytest.raises(UsageError, match=rf"own\.toml: {key} has no effect"):
        read_config(stage, None, file)
    file.write_text(f"[{section}]\n{name} = {value}\n")
    read_config(stage, None, file)  # one file serves both stages
    read_config("sft" if stage == "rl" else "rl", None, None, [override, "data.pack_tokens=4096"])


def test_only_sft_fits_its_passes_into_a_batch() -> None:
    assert read_config("rl", None, None, ["data.pack_tokens=131072"]).data.pack_tokens == 131072
    with pytest.raises(UsageError, match=r"must fit into data\.batch_tokens"):
        read_config("sft", None, None, ["data.pack_tokens=131072"])


def test_mistakes_in_files_are_told_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[rl.optimiser]\nlearning = 1\n")
    with pytest.raises(UsageError, match=r"bad\.toml: there is no setting optimiser\.learning"):
        read_config("sft", None, file)
    file.write_text("[optimiser\n")
    with pytest.raises(UsageError, match="is no TOML"):
        read_config("sft", None, file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_config("sft", None, tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="did you mean one-gpu"):
        read_config("sft", "one-gp")


def test_what_changed_is_told_by_its_key() -> None:
    before = read_config("sft", "laptop")
    assert changed(before, before) == []
    assert changed(before, read_config("sft", "laptop", None, ["optimiser.lr=1e-3", "log.eval_rows=3"])) == [
        "log.eval_rows",
        "optimiser.lr",
    ]


def test_every_setting_has_a_dotted_name() -> None:
    assert {"model.lora.rank", "advantage.weights.select", "rejection.mismatch.veto", "ablations.skills"} <= set(keys(Config))
