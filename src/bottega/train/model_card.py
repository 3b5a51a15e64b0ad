"""A model's card, filled from the run that made it: every stage back to the base, its settings and figures, its data, the judge, hashes, limits.

As plain data it travels in the difference's header; as Markdown it lies beside it. Places on the maker's disk are cut to their last
names: they would help nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bottega
from bottega.backbone.delta import Header, kept, read_header
from bottega.backbone.loading import delta_of, is_embedded
from bottega.core.errors import BottegaError
from bottega.core.event import RunEnded, RunStarted
from bottega.episodes.journal import read_events
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.train.run_directory import CONFIG, MODEL, runs_before

LIMITS = (
    "It is a model of 135 million parameters: much of what it writes is wrong, and only the judge says which is not.",
    "It was trained for Bottega's own prompts and roles (select, write, summarise); it is no assistant for anything else.",
    "What it gained was measured on the tasks and the device named here; on others it may gain nothing.",
)
_DATA_KEYS = (
    "made_at",
    "examples",
    "splits",
    "counts",
    "tasks",
    "operator_combinations",
    "tokens",
    "judge",
    "device",
    "style",
    "files",
)
_OF_SFT = ("model", "data", "loss", "optimiser", "checkpoint")
"""Sections that a cold start reads; the others are RL's."""


def card_for(place: Path, name: str, note: str = "") -> dict[str, Any]:
    """What is known of the model in a run's folder, or in a model's folder, which says less."""
    run = place.parent if place.name == MODEL and (place.parent / CONFIG).is_file() else place
    stages = _stages(run)
    return {
        "name": name,
        "style": _style(stages),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_with": {"bottega": bottega.__version__, "judge": JUDGE_VERSION},
        "licence": "Apache-2.0, as the base",
        "note": note,
        "stages": stages,
        "limits": list(LIMITS),
    }


def _style(stages: list[dict[str, Any]]) -> str:
    """The prompts that it was trained on last: of an RL run's rollouts, or else of the cold start's data."""
    for stage in stages:
        told = (stage["settings"].get("rollout") or {}) if stage["stage"] == "rl" else stage["data"]
        if told.get("style"):
            return str(told["style"])
    return ""


def _stages(run: Path) -> list[dict[str, Any]]:
    """From the last to the first: RL may begin with the model of a cold start, which has a run of its own."""
    found: list[dict[str, Any]] = []
    began = ""
    for each, content in runs_before(run):
        config, began = dict(content["config"]), str(content["began_with"])
        found.append(
            {
                "stage": str(content.get("stage", "")),
                "run_sha256": hashlib.sha256((each / CONFIG).read_bytes()).hexdigest(),
                **_figures(each),
                "data": _data(content.get("data")),
                "settings": _short({k: v for k, v in config.items() if content.get("stage") != "sft" or k in _OF_SFT}),
            }
        )
    return [*found, *_packed_stages(began)]


def _packed_stages(name: str) -> list[dict[str, Any]]:
    """What made the delta that a run began with; nothing where it began with the base, or with a model that says nothing."""
    delta = delta_of(name) if is_embedded(name) else None
    return list(read_header(delta)[0].card.get("stages") or ()) if delta is not None and delta.is_file() else []


def _figures(run: Path) -> dict[str, Any]:
    try:
        events = list(read_events(run))
    except (BottegaError, OSError):
        return {}
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
    return {"on": started.fingerprint if started else {}, "result": ended.facts if ended else {}}


def _data(place: object) -> dict[str, Any]:
    """The data card in brief, where the data has one."""
    if not isinstance(place, str) or not place:
        return {}
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
        return {"name": folder.name, **{key: card[key] for key in _DATA_KEYS if key in card}}
    except (OSError, ValueError, TypeError):
        return {"name": Path(place).name}


def data_style(place: str) -> str:
    """Of the prompts in a cold start's rows, where their card says it."""
    return str(_data(place).get("style") or "")


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    if not isinstance(value, str):
        return value
    kind, place = value.split(":", 1) if is_embedded(value) and ":" in value else ("", value)
    short = "/".join(Path(place).parts[-2:]) if place.startswith(("/", "~", "..")) else place
    return f"{kind}:{short}" if kind else short


def card_text(header: Header, size: int, sha256: str, check: Mapping[str, Any] | None = None) -> str:
    """The card in Markdown."""
    card = header.card
    made = card.get("made_with") or {}
    weights = [entry for entry in header.entries if entry.kind == "levels"]
    count = sum(entry.shape[0] * entry.shape[1] for entry in weights)
    lines = [
        f"# {header.base} + {card.get('name', 'difference')}",
        "",
        str(card.get("note") or "A delta to the base, made by `bottega model pack`."),
        "",
        "| | |",
        "|---|---|",
        f"| base | {header.base}, file with sha256 `{header.base_sha256}` |",
        f"| delta | {size / 1e6:.2f} MB, sha256 `{sha256}` |",
        f"| matrices | {len(weights)} of {count:,} weights, {8 * sum(e.bytes for e in weights) / max(1, count):.2f} bits each |",
        f"| rounding | steps of {header.step:g} times a row's root mean square; {kept(header):.1%} of the change's energy kept |",
        f"| made | {card.get('made_at', '')}, Bottega {made.get('bottega', '?')}, judge {made.get('judge', '?')} |",
        f"| prompts | {card.get('style') or 'not said'} |",
        f"| licence | {card.get('licence', '')} |",
    ]
    if check:
        lines.append(
            f"| checked on {check['tokens']:,} tokens of {check['data']} | mean log-prob: base {check['base']:.4f}, "
            f"what it began with {check['began']:.4f}, trained {check['trained']:.4f}, "
            f"packed {check['packed']:.4f}; mean distance of packed from trained {check['mean_distance']:.4f} |"
        )
    for stage in reversed(card.get("stages") or ()):
        lines += ["", f"## {stage.get('stage') or 'stage'}", "", *_table(stage)]
    lines += ["", "## Limits", "", *(f"- {limit}" for limit in card.get("limits") or ()), ""]
    return "\n".join(lines)


def _table(stage: Mapping[str, Any]) -> list[str]:
    rows = {
        "run (sha256 of its settings)": f"`{stage.get('run_sha256', '')}`",
        "result": _inline(stage.get("result")),
        "machine": _inline(stage.get("on")),
        **{f"data: {key}": _inline(value) for key, value in (stage.get("data") or {}).items()},
        **{f"settings: {key}": _inline(value) for key, value in (stage.get("settings") or {}).items()},
    }
    return ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items() if value)]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_inline(item)}" for key, item in value.items() if item not in (None, {}, [], ()))
    if isinstance(value, list | tuple):
        return ", ".join(_inline(item) for item in value)
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
