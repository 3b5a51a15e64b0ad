"""Settings of SFT and RL, read as every command's are (`core.settings`), with tables of their own in one TOML file.

Sections are shared by SFT and RL. What differs between the two stands in the tables `[sft.…]` and `[rl.…]` of the same file, which are
laid over the shared sections for that stage. What one stage alone reads may stand in a shared section, since one file serves both; said to
the other one by its own table or by an override it is an error, because nothing would come of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bottega.core.errors import UsageError
from bottega.core.settings import SettingsLayer, flat, overrides_of, read_settings, read_sources, refuse_unknown, split_tables
from bottega.train.settings import Config

Stage = Literal["sft", "rl"]
STAGES = ("sft", "rl")
PRESETS = "bottega.train.presets"
WITHOUT_EFFECT: dict[Stage, dict[str, str]] = {
    "rl": {
        "data.batch_tokens": "an update takes all that the step's rollouts came to; rollout.tasks, schemes and samples say how much that is",
        "data.batch_rows": "an update takes all that the step's rollouts came to; rollout.tasks, schemes and samples say how much that is",
        "data.epochs": "an RL run is as long as data.steps says",
        "data.held_out": "it has no rows; data.validation names tasks",
        "data.roles": "ablations.roles says which roles are trained",
        "log.eval_rows": "it has no rows; all tasks of data.validation are answered",
    },
    "sft": {
        "data.tasks": "its rows come from --data",
        "data.validation": "data.held_out says which rows are kept for it",
        "log.stop_on_alarm": "alarms are RL's",
        "checkpoint.step_logs": "nothing is drawn and judged",
        **dict.fromkeys(
            ("rollout", "skills", "reward", "advantage", "critic", "stages", "rejection", "ablations"),
            "nothing is drawn and judged",
        ),
    },
}
"""Of each stage the settings, or whole sections, that it does not read, and why."""


def read_config(stage: Stage, preset: str | None = None, file: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Raises `UsageError` with the key, what is wrong with it, and the nearest key that exists."""
    # A cold start begins with the plain model, not with what comes along trained; RL goes on from whatever is named.
    cold = {"loss": {"normalise": "tokens"}, "model": {"name": "embedded:base"}}
    layers = [SettingsLayer("the defaults of SFT", cold)] if stage == "sft" else []
    own = []
    for layer in read_sources(PRESETS, preset, file):
        shared, tables = split_tables(layer, STAGES)
        for table in tables.values():
            refuse_unknown(Config, table, layer.source)  # of the other stage too: a mistake there is one
        own.append(SettingsLayer(layer.source, tables.get(stage, {})))
        layers += [SettingsLayer(layer.source, shared), own[-1]]
    own.append(SettingsLayer("command line", overrides_of(Config, overrides)))
    config = read_settings(Config, [*layers, own[-1]])
    for layer in own:
        refuse_without_effect(stage, layer.values, layer.source)
    if stage == "sft" and config.data.pack_tokens > config.data.batch_tokens and config.data.batch_rows is None:
        raise UsageError(
            f"data.pack_tokens ({config.data.pack_tokens}) must fit into data.batch_tokens ({config.data.batch_tokens})"
        )
    return config


def has_effect(stage: Stage, key: str) -> bool:
    """Whether a stage reads a setting."""
    return _without_effect(stage, key) is None


def refuse_without_effect(stage: Stage, given: Mapping[str, Any], source: str) -> None:
    """Raises `UsageError` for a setting that was given to a stage which does not read it."""
    for key, _ in flat(given):
        why = _without_effect(stage, key)
        if why is not None:
            raise UsageError(f"{source}: {key} has no effect in {stage.upper()}: {why}")


def _without_effect(stage: Stage, key: str) -> str | None:
    parts = key.split(".")
    above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((WITHOUT_EFFECT[stage][name] for name in above if name in WITHOUT_EFFECT[stage]), None)
