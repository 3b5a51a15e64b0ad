"""Checkpoints and the finished model: the complete state that a run resumes from, and a folder that `local:PATH` opens; both written atomically.

A checkpoint is a folder, written beside its place under another name, flushed to the disk, and renamed; only then does `latest` point
to it, and only then is an older one removed. So whatever ends the process, a kill or a full disk, the last good one is there. Weights and moments
are in torch's distributed format: of several ranks each writes its own slices, and any number of ranks reads them. The finished model is in
transformers' own format, adapters merged.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from bottega.backbone.loading import NOTE
from bottega.backbone.weights import bare, plain_weights, save_config
from bottega.core.errors import TrainingError
from bottega.core.files import json_text, write_atomic
from bottega.train.checksums import damage_of_file
from bottega.train.learner import Learner
from bottega.train.ranks import RankLostError

FORMAT = 2
STATE, TENSORS, RANDOM, LATEST = "state.json", "tensors", "random.pt", "latest"
_NAME = re.compile(r"step-(\d{8})")


@dataclass(frozen=True)
class Saved:
    folder: Path
    step: int
    state: dict[str, Any]
    """What the loop put there: data position, library version and whatever else is its own."""
    bad_steps: int = 0
    """Steps in a row that were left out."""


class Checkpoints:
    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self.passed_over: list[str] = []
        """Checkpoints that could not be used when the latest was looked for, and why."""

    def save(self, step: int, learner: Learner, state: Mapping[str, Any]) -> Path:
        """Raises `TrainingError` when it cannot be kept; what was kept before is untouched."""
        place = self.folder / f"step-{step:08}"

        def write(folder: Path) -> None:
            learner.save(folder / TENSORS)
            torch.save(random_states(), folder / RANDOM)
            sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
            content = {"format": FORMAT, "step": step, "files": sizes, "bad_steps": learner.optimiser.bad, "state": dict(state)}
            (folder / STATE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            _require_room(self.folder, 3 * sum(value.numel() * value.element_size() for value, _ in learner.kept().values()))
            _put_folder(place, write)
            self._point(place.name)
        except RankLostError:  # the disk is not at fault
            raise
        except Exception as error:  # torch and safetensors raise their own kinds for a full disk
            raise TrainingError(
                f"{place}: the checkpoint could not be kept ({_told(error)}); earlier ones stand. Make room, then go on with --resume"
            ) from error
        for step_before in sorted(self._steps())[: -self.keep]:
            shutil.rmtree(self.folder / f"step-{step_before:08}", ignore_errors=True)
        return place

    def latest(self, learner: Learner) -> Saved | None:
        """The last good one: what `latest` names, or else the newest that is whole. All ranks of the learner read, a share each."""
        self.passed_over = []
        names = [f"step-{step:08}" for step in sorted(self._steps(), reverse=True)]
        with contextlib.suppress(OSError):
            pointed = (self.folder / LATEST).read_text(encoding="utf-8").strip()
            names = [pointed] * (pointed in names) + [name for name in names if name != pointed]
        for name in names:
            try:
                saved = _read(self.folder / name)
                if wrong := damage_of_file(saved.folder / RANDOM) or learner.damage(saved.folder / TENSORS):
                    raise ValueError(wrong)
                return saved
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.passed_over.append(f"{name}: {error}")
        return None

    def load(self, saved: Saved, learner: Learner) -> None:
        """Put weights, moments and random states back. Raises `TrainingError` where they are another model's."""
        learner.load(saved.folder / TENSORS)
        learner.optimiser.bad = saved.bad_steps
        set_random_states(torch.load(saved.folder / RANDOM, map_location="cpu", weights_only=True))

    def oldest(self) -> int:
        """The first step that a run may go back to; 0 without a checkpoint."""
        return min(self._steps(), default=0)

    def _steps(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return [int(found[1]) for path in self.folder.iterdir() if (found := _NAME.fullmatch(path.name))]

    def _sweep(self) -> None:
        """Remove what processes that were killed left half written."""
        for path in self.folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _point(self, name: str) -> None:
        write_atomic(self.folder / LATEST, f"{name}\n".encode())
        _flush(self.folder)


def random_states() -> dict[str, Any]:
    version, internal, following = random.getstate()
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    found: dict[str, Any] = {
        "python": [version, list(internal), following],
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys, np.int64)), int(position), int(has_gauss), float(gauss)],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state_all()
    return found


def set_random_states(states: Mapping[str, Any]) -> None:
    version, internal, following = states["python"]
    random.setstate((version, tuple(internal), following))
    kind, keys, position, has_gauss, gauss = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def _read(folder: Path) -> Saved:
    content = json.loads((folder / STATE).read_text(encoding="utf-8"))
    if content["format"] > FORMAT:
        raise ValueError(f"written by a newer version (format {content['format']})")
    if content["format"] < FORMAT:
        raise ValueError(
            f"written by an older version (format {content['format']}); begin a new run with the model of this one"
        )
    for name, size in content["files"].items():
        if (folder / name).stat().st_size != size:
            raise ValueError(f"{name} is not whole")
    return Saved(folder, int(content["step"]), content["state"], int(content["bad_steps"]))


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(28, f"it takes about {needed / 2**30:.2f} GiB and {free / 2**30:.2f} GiB are free")


def _told(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else (str(error).splitlines() or [repr(error)])[0]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def written_whole(place: Path, write: Callable[[Path], None]) -> None:
    """A folder that appears at its place complete. Raises `TrainingError` where it cannot be written."""
    for left in place.parent.glob(f".{place.name}.*"):  # half written, by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        _put_folder(place, write)
    except (OSError, SafetensorError) as error:  # safetensors has its own kind for a full disk
        raise TrainingError(f"{place}: cannot be written ({_told(error)}); make room, then --resume") from error


def _put_folder(place: Path, write: Callable[[Path], None]) -> None:
    """`write` fills a folder of another name, which is flushed to the disk and renamed in place of what was there."""
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        for path in temporary.rglob("*"):
            _flush(path)
        _flush(temporary)
        if place.exists():
            shutil.rmtree(place)
        os.rename(temporary, place)
        _flush(place.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def export_model(model: Any, tokenizer: Any, place: Path, dtype: torch.dtype = torch.float32, style: str = "") -> None:
    """`tokenizer` is the Hugging Face one, `style` that of the prompts it was trained on. Under LoRA the adapter alone is kept as well, in
    `adapter` beside it."""
    inner = bare(model)
    state = {name: value.contiguous().cpu().to(dtype, copy=True) for name, value in plain_weights(inner)}
    kept = inner.config.dtype
    inner.config.dtype = dtype

    def write(folder: Path) -> None:
        save_config(inner, folder)
        if getattr(inner, "generation_config", None) is not None:
            inner.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if style:
            (folder / NOTE).write_text(json_text({"style": style}), encoding="utf-8")
        from safetensors.torch import save_file

        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    try:
        written_whole(place, write)
    finally:
        inner.config.dtype = kept
    if inner is not model:
        written_whole(place.with_name("adapter"), model.save_pretrained)
