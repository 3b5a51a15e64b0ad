"""Settings of a benchmark run, as plain values: equal settings resume the same run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bottega.agents.answers.pipeline import policy_for
from bottega.agents.prompts import Style
from bottega.core.errors import UsageError
from bottega.episodes.delivery.files import encoded, json_text
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping

MODES: dict[str, bool | None] = {"as-built": None, "train": True, "eval": False}
Selection = Literal["selector", "bm25", "none"]


@dataclass(frozen=True)
class BenchJudgeSettings:
    """How every kernel of a run is judged, whoever wrote it."""

    kind: str = "cpu"
    """Of the devices: `cpu` or `cuda`."""
    baselines: tuple[str, ...] = ("eager",)
    precision: str = "fp32"
    mode: str = "as-built"
    quick: bool = False
    timeout: float = 120.0
    require_kernel: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"unknown mode {self.mode!r}; use {', '.join(MODES)}")

    @property
    def options(self) -> dict[str, Any]:
        """As the judge takes them."""
        return {
            "baselines": self.baselines,
            "precision": self.precision,
            "training": MODES[self.mode],
            "quick": self.quick,
            "timeout": self.timeout,
            "require_kernel": self.require_kernel,
        }

    @classmethod
    def of(cls, settings: dict[str, Any]) -> BenchJudgeSettings:
        """From the terms of a run. Raises `KeyError` or `TypeError` for what are no terms."""
        names = cls.__dataclass_fields__
        values = {name: settings[name] for name in names}
        return cls(**{**values, "baselines": tuple(values["baselines"])})


@dataclass(frozen=True)
class BenchWriterSettings:
    """How kernels are written. Every sample of a task is an episode of its own, so that none sees another."""

    backbone: str
    """As the user named it."""
    language: str
    samples: int = 1
    strategy: str = "serial"
    generations: int = 1
    """Turns of a serial sample; generations of a beam or of an evolution."""
    width: int = 2
    branch: int = 2
    library: str = ""
    """`starter`, a folder, or nothing."""
    selection: Selection = "selector"
    unproved: bool = True
    temperature: float = 1.0
    max_tokens: int = 2048
    context: int | None = None
    style: Style = "compact"
    redraws: int = 0
    prompts: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UsageError(f"samples must be at least 1, not {self.samples}")
        if self.selection not in ("selector", "bm25", "none"):
            raise UsageError(f"unknown selection {self.selection!r}; use selector, bm25 or none")
        if self.strategy == "parallel":  # kernels that see no other are samples of one turn, whatever they were called
            object.__setattr__(self, "samples", self.samples * self.generations)
            object.__setattr__(self, "generations", 1)
        self.episode("cpu", BenchJudgeSettings())  # says now what an episode would not take

    @property
    def in_process(self) -> bool:
        """Whether the model draws its answers in this process, on this machine's devices."""
        return not self.backbone.startswith(("server:", "scripted:"))

    @property
    def turns(self) -> int:
        """Kernels of one sample, in a row."""
        return self.generations * (self.width * self.branch if self.strategy in ("beam", "evolve") else 1)

    def episode(self, device: str, judging: BenchJudgeSettings) -> EpisodeSettings:
        """Of one sample. All turns are always taken: an end by target or roofline would leave samples of unequal length."""
        skilled = bool(self.library) and self.selection != "none"
        return EpisodeSettings(
            device=device,
            language=self.language,
            baselines=judging.baselines,
            precision=judging.precision,
            quick=judging.quick,
            strategy="serial" if self.strategy == "parallel" else self.strategy,
            turns=self.generations,
            samples=self.width if self.strategy in ("beam", "evolve") else 1,
            branch=self.branch,
            schemes=1 if skilled else 0,
            empty_scheme=not skilled,
            select=self.selection if skilled else "none",
            unproved=self.unproved,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            style=self.style,
            answers=policy_for(self.redraws),
            seed=self.seed,
            stopping=Stopping(roofline=0.0),
        )


@dataclass(frozen=True)
class BenchSettings:
    tasks: tuple[str, ...]
    """References, as the user gave them."""
    judging: BenchJudgeSettings
    writing: BenchWriterSettings | None = None
    """None where others wrote the kernels."""
    name: str = ""
    """Who wrote the kernels, for the record."""
    levels: tuple[int, ...] = ()
    only: str = ""
    limit: int | None = None
    candidates: str = ""
    """The folder of kernels that others wrote."""

    def terms(self, facts: dict[str, Any]) -> dict[str, Any]:
        """What must be the same when a run is resumed, as plain JSON, together with facts that only the run's material tells."""
        own = {name: value for name, value in self.__dict__.items() if name not in ("judging", "writing")}
        writing = {} if self.writing is None else {**asdict(self.writing), "turns": self.writing.turns}
        told = {"turns": 1, **own, **asdict(self.judging), **writing, **facts}
        return dict(json.loads(encoded(json_text(told))))  # as a file gives it back
