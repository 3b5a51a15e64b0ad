"""From a finished run to a file that ships: its model as a delta to the embedded one, its card, and how much the rounding cost.

`bottega model` is this with options. Nothing here trains or judges.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bottega.backbone.delta import DeltaFile, apply_delta, read_header, state_of, step_for, write_delta
from bottega.backbone.embedded import NAME, read_embedded, require_embedded_file
from bottega.backbone.loading import BASE, LoadedModel, delta_of, is_embedded, load
from bottega.backbone.merged import read_merged
from bottega.core.errors import BackboneError, UsageError
from bottega.core.files import file_sha256
from bottega.train.checkpoint import export_model
from bottega.train.conversations import SftSample, read_samples
from bottega.train.packing import by_row
from bottega.train.policy import Policy
from bottega.train.run_directory import CONFIG, MODEL, runs_before

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MEGABYTE = 1_000_000
LONGEST = 4096
"""Tokens of a row on which models are compared."""


@dataclass(frozen=True)
class Agreement:
    """What four models say of the same answers: mean log-prob of a token, and how far the packed model is from the trained one."""

    tokens: int
    base: float
    began: float
    """By the model that training began with: the base, or what was packed before."""
    trained: float
    packed: float
    mean_distance: float
    """Mean of the absolute difference between packed and trained, over the tokens."""
    largest_distance: float

    @property
    def kept(self) -> float:
        """Share of what training gained on these answers, over what it began with, that the packed model has."""
        gained = self.trained - self.began
        return (self.packed - self.began) / gained if gained else 1.0


def model_folder(place: Path) -> Path:
    """The model's folder of a run, or the folder itself where it holds one."""
    for folder in (place / MODEL, place):
        if any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
            return folder
    unfinished = (
        f"; the run is not finished, go on with bottega sft (or train) --out {place} --resume"
        if (place / "config.json").is_file()
        else ""
    )
    raise UsageError(f"{place}: holds no {WEIGHTS}, nor does {place / MODEL}{unfinished}")


def trained_state(folder: Path) -> dict[str, Tensor]:
    """Tensors of a folder that transformers or `export_model` wrote, as they are stored."""
    from safetensors.torch import load_file

    try:
        names = [WEIGHTS]
        if not (folder / WEIGHTS).is_file():
            names = sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
        return {name: value for part in names for name, value in load_file(folder / part).items()}
    except Exception as error:  # safetensors has its own kinds
        raise BackboneError(f"{folder}: its weights cannot be read: {error}") from None


def pack(
    place: Path, out: Path, card: dict[str, Any], *, step: float | None = None, most: int | None = None,
    on_event: Callable[[str], None] = lambda told: None,
) -> DeltaFile:  # fmt: skip
    """`most`: bytes that the file may have; a step is searched for. Else `step`, or 1. A run that began with a delta keeps its levels, unless
    another step is asked for or the file would be too large."""
    base_file = require_embedded_file()
    base = state_of(read_embedded(base_file)[0])
    stored = trained_state(model_folder(place))
    if any(value.dtype != torch.float32 for value in stored.values()):
        on_event(
            "its weights are not stored in fp32, so their rounding is packed as if it were training: checkpoint.export=float32 is better"
        )
    trained = _comparable(stored, base)
    facts: dict[str, Any] = {"base": NAME, "base_sha256": file_sha256(base_file), "card": card}
    out.parent.mkdir(parents=True, exist_ok=True)
    start = starting_delta(place)
    if start is not None:
        before = read_header(start)[0]
        if step in (None, before.step) and before.base_sha256 == facts["base_sha256"]:
            written = write_delta(base, trained, out, step=before.step, start=start, **facts)
            if most is None or written.size <= most:
                return written
        on_event("rounded on other levels than the delta that it began with: small changes since then are lost")
    if step is None:
        step = step_for(base, trained, most) if most is not None else 1.0
    written = write_delta(base, trained, out, step=step, **facts)
    while most is not None and written.size > most:  # the sample told a little too little
        step = round(step * 1.02, 4)
        written = write_delta(base, trained, out, step=step, **facts)
    return written


def starting_delta(place: Path) -> Path | None:
    """The delta that a run's model began with, in this run or in one before it; none where it began with the base or with another model."""
    run = place.parent if place.name == MODEL and (place.parent / CONFIG).is_file() else place
    names = [str(content["began_with"]) for _, content in runs_before(run)]
    delta = delta_of(names[-1]) if names and is_embedded(names[-1]) else None
    return delta if delta is not None and delta.is_file() else None


def unpack(delta: Path, place: Path) -> None:
    """A plain folder of transformers' kind, in fp32."""
    if place.exists():
        raise UsageError(f"{place}: is there already; give a folder that is not")
    model, tokenizer, _ = read_merged(delta)
    export_model(model, tokenizer, place)


def agreement(
    place: Path, delta: Path, data: Path, *, device: str | None = None, rows: int = 256,
    on_event: Callable[[str], None] = lambda told: None,
) -> Agreement:  # fmt: skip
    """On held-out rows where the data has any, else on its first ones. All models compute alike, in fp32."""
    loaded = load(BASE, device=device, dtype="float32")
    samples = read_samples(data, loaded.tokenizer, LONGEST, 0.0, 0)
    chosen = (samples.held_out or samples.train)[:rows]
    found: dict[str, np.ndarray] = {}
    base = {name: value.clone() for name, value in state_of(loaded.model).items()}
    start = starting_delta(place)
    changes: dict[str, Callable[[], object]] = {
        "base": lambda: None,
        "began": lambda: _set_packed(loaded, base, start) if start is not None else None,
        "trained": lambda: _set(loaded, _comparable(trained_state(model_folder(place)), base)),
        "packed": lambda: _set_packed(loaded, base, delta),
    }
    for name, change in changes.items():
        on_event(f"{len(chosen)} rows by the {name} model")
        change()
        found[name] = _logprobs(loaded, chosen)
    distance = np.abs(found["packed"] - found["trained"])
    means = {name: float(values.mean()) for name, values in found.items()}
    return Agreement(len(distance), **means, mean_distance=float(distance.mean()), largest_distance=float(distance.max()))


def _comparable(trained: dict[str, Tensor], base: dict[str, Tensor]) -> dict[str, Tensor]:
    """In fp32, without the head where it is tied to the embedding. What is the base's but for being stored in fewer bits did not change."""
    found = {}
    for name, value in trained.items():
        before = base.get(name)
        fewer = value.dtype != torch.float32 and before is not None and before.shape == value.shape
        found[name] = before if fewer and before is not None and torch.equal(value, before.to(value.dtype)) else value.float()
    head, embedding = "lm_head.weight", "model.embed_tokens.weight"
    if head in base or head not in found:
        return found
    tied = found.pop(head)
    if embedding in found and not torch.equal(tied, trained[embedding].float()):
        raise BackboneError(
            f"the trained model's {head} is no longer its embedding, which it is in the base: it cannot be packed"
        )
    return {embedding: tied, **found}


def _set(loaded: LoadedModel, state: dict[str, Tensor]) -> None:
    wrong = loaded.model.load_state_dict(state, strict=False)
    missing = [name for name in wrong.missing_keys if name != "lm_head.weight"]
    if missing or wrong.unexpected_keys:
        raise BackboneError(
            f"the trained model is not one of the base's make: missing {missing[:3]}, unknown {wrong.unexpected_keys[:3]}"
        )


def _set_packed(loaded: LoadedModel, base: dict[str, Tensor], delta: Path) -> None:
    _set(loaded, base)
    apply_delta(loaded.model, delta)


def _logprobs(loaded: LoadedModel, samples: Sequence[SftSample]) -> np.ndarray:
    policy = Policy(loaded.model, dtype=torch.float32, compiled=False)
    packs = policy.packs([sample.row() for sample in samples], LONGEST)
    return np.concatenate(by_row(packs, [policy.logprobs(pack)[0] for pack in packs])).astype(np.float64)
