"""Settings of `bottega bench`, and what of them makes two sessions the same run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bottega.agents.answers.pipeline import policy_for
from bottega.core.errors import UsageError
from bottega.core.files import encoded, json_text
from bottega.core.setting_kinds import MODES, Cluster, Count, Numbers, Paths, Positive, Share
from bottega.episodes.backbone_defaults import NO_MODEL, answer_tokens, prompt_style, resample_count, temperature_for
from bottega.episodes.settings import EpisodeSettings, StrategyName
from bottega.episodes.stopping import Stopping
from bottega.episodes.writing_settings import WritingSettings
from bottega.judge.baselines import parse_baselines
from bottega.languages import choose_language

STARTER = "starter"
WIDE, BRANCHING = ("beam", "evolve", "tree", "scientist"), ("beam", "evolve")
"""Strategies whose sample is a search with `width` kernels side by side, and those with `branch` children of each."""


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
        own = {name: value for name, value in asdict(self).items() if name not in ("kind", "mode")}
        return {**own, "baselines": self.baselines, "training": MODES[self.mode]}

    @classmethod
    def of(cls, settings: dict[str, Any]) -> BenchJudgeSettings:
        """From the terms of a run. Raises `KeyError` or `TypeError` for what are no terms."""
        values = {name: settings[name] for name in cls.__dataclass_fields__}
        return cls(**{**values, "baselines": tuple(values["baselines"])})


class BenchSettings(WritingSettings):
    command: ClassVar[str] = "bench"
    flags: ClassVar[tuple[str, ...]] = (
        "backbone",
        "candidates",
        "device",
        "server",
        "cluster",
        "out",
        "verify",
        "json",
    )

    levels: Numbers = ()
    """Only tasks of these levels, such as 1,2; empty for all."""
    only: str = ""
    """Only tasks whose name fits a pattern, such as *softmax*."""
    limit: Positive | None = None
    """So many tasks, at even distances over the whole set."""
    backbone: str | None = None
    """The model that writes: embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE; none for drafts alone."""
    drafts: Count = 0
    """Kernels of the rule-based compiler that are judged too, best first, where a sample has none that is faster, until one is."""
    samples: Positive = 1
    """Samples of each task, none of which sees another."""
    turns: Positive = 1
    """Kernels of a sample in a row, each seeing the ones before it."""
    kept: Count = 0
    """Of a long row of strategy=serial: kernels that the next one sees, the last and the best of those before it; 0 shows all."""
    strategy: StrategyName = "serial"
    """serial; critic (a line, with advice); agent (with tools); parallel (samples × turns kernels, all apart); beam, evolve, tree or scientist."""
    steps: Positive = 200
    """Answers of an agent in a sample, at most."""
    skill_files: Path | None = None
    """A folder whose SKILL.md files an agent may read, as they are."""
    width: Positive = 2
    """Of a beam; islands of an evolution; kernels of a round in a tree and of a scientist."""
    branch: Positive = 2
    """Children of a kernel in a beam, of an island in evolution."""
    seed: int | None = None
    """Of sampling answers: 0 if left out. Of what `verify` judges again: at random if left out."""
    at_once: Positive | None = None
    """Samples under way at a time, for each device; if left out 8, or 256 by a model on the judge's device."""
    library: str = "none"
    """A skill library's folder, starter for the set that comes along, or none."""
    selection: Literal["selector", "bm25", "none"] = "selector"
    """Who picks skills: the backbone, the search alone, or nobody."""
    candidates: Path | None = None
    """Judge the kernels in this folder: KernelBench's run folder, or TASK.py, TASK.0.py, TASK/0.py."""
    name: str = ""
    """Who wrote the kernels, for the record; the model or folder if left out."""
    device: str = "cpu"
    """cpu, cuda, cuda:0,cuda:1, or all: one judge on each."""
    server: str | None = None
    """Judge on the device of this `bottega serve`, by its URL; its token is read from BOTTEGA_TOKEN."""
    cluster: Cluster = None
    baseline: str = "eager"
    """eager, compile, autotune, best (the fastest of them), or several by comma. The first one counts."""
    quick: bool = False
    """Fewer input variants and timed rounds; not for publishing."""
    timeout: float = 120.0
    """Seconds of a kernel's own time, compiling included."""
    require_kernel: float | None = None
    """Reject where own kernels do less than this share of the work."""
    known: Paths = ()
    """What these runs judged, in the same way, is not judged again."""
    record: Annotated[Path | None, Field(alias="verify")] = None
    """Judge a random part of a record again: a leaderboard.json or its folder."""
    share: Share = 0.1
    """The part of a record that is judged again."""
    count: Positive | None = None
    """So many kernels of a record, in place of a share."""
    out: Path | None = None
    """The run's folder; ./bottega-bench-N if left out."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """Print the record, or what there is of it, on standard output."""

    @property
    def judging(self) -> BenchJudgeSettings:
        kind = "cpu" if self.device == "cpu" else "cuda"
        baselines = parse_baselines(self.baseline)
        return BenchJudgeSettings(kind, baselines, self.precision, self.mode, self.quick, self.timeout, self.require_kernel)

    @property
    def library_name(self) -> str:
        """`starter`, a folder, or nothing."""
        if self.library in ("none", "", STARTER):
            return self.library if self.library == STARTER else ""
        return str(Path(self.library).resolve())

    @property
    def kernels(self) -> int:
        """Of one sample, in a row, without drafts."""
        if not self.asks_model:
            return 0 if self.candidates is None else 1
        return self.turns * (self.width if self.strategy in WIDE else 1) * (self.branch if self.strategy in BRANCHING else 1)

    @property
    def asks_model(self) -> bool:
        """Whether a model writes; else kernels are read from files, or the compiler is alone."""
        return self.backbone not in (None, NO_MODEL)

    @property
    def in_process(self) -> bool:
        """Whether the model draws its answers in this process, on this machine's devices."""
        return self.asks_model and not str(self.backbone).startswith(("server:", "scripted:"))

    def resolved(self) -> BenchSettings:
        """With what the user did not say, which the backbone and the device choose."""
        language = choose_language(self.language, self.judging.kind) if self.asks_model or self.drafts else self.language
        if self.backbone is None or not self.asks_model:
            return self.model_copy(update={"language": language})
        style = prompt_style(self.backbone, self.style)
        chosen: dict[str, Any] = {
            "language": language,
            "temperature": temperature_for(self.backbone, self.samples * self.turns, self.temperature),
            "max_tokens": answer_tokens(self.backbone, self.max_tokens),
            "style": style,
            "resamples": resample_count(style, self.resamples),
            "seed": self.seed or 0,
        }
        if self.strategy == "parallel":  # kernels that see no other are samples of one turn, whatever they were called
            chosen |= {"samples": self.samples * self.turns, "turns": 1}
        found = self.model_copy(update=chosen)
        found.episode("cpu")  # says now what an episode would not take
        return found

    def episode(self, device: str) -> EpisodeSettings:
        """Of one sample. All turns are always taken: an end by target or roofline would leave samples of unequal length."""
        skilled = bool(self.library_name) and self.selection != "none"
        return EpisodeSettings(
            device=device,
            language=self.language or "",
            baselines=self.judging.baselines,
            precision=self.precision,
            quick=self.quick,
            strategy="serial" if self.strategy == "parallel" else self.strategy,
            turns=self.turns,
            kept=self.kept,
            samples=self.width if self.strategy in WIDE else 1,
            branch=self.branch,
            steps=self.steps,
            skill_files=str(self.skill_files.resolve()) if self.skill_files else "",
            schemes=1 if skilled else 0,
            empty_scheme=not skilled,
            select=self.selection if skilled else "none",
            unproved=not self.proved_only,
            temperature=1.0 if self.temperature is None else self.temperature,
            max_tokens=self.max_tokens or 0,
            stop=self.stop,
            style=self.style or "compact",
            answers=policy_for(self.resamples or 0),
            seed=self.seed or 0,
            stopping=Stopping(roofline=0.0),
        )

    def drafting(self, device: str) -> EpisodeSettings:
        """Of the compiler's part of one sample: nothing that only a model is asked with."""
        return EpisodeSettings(
            device=device,
            language=self.language or "",
            baselines=self.judging.baselines,
            precision=self.precision,
            quick=self.quick,
            drafts=self.drafts,
            stopping=Stopping(roofline=0.0),
        )

    def terms(self, tasks: tuple[str, ...], facts: dict[str, Any]) -> dict[str, Any]:
        """What must be the same when a run is resumed, as plain JSON, together with facts that only the run's material tells."""
        candidates = "" if self.candidates is None else str(self.candidates)
        own = {"tasks": tasks, "name": self.name, "levels": sorted(set(self.levels)), "only": self.only, "limit": self.limit,
               "candidates": candidates, "turns": self.kernels, "drafts": self.drafts}  # fmt: skip
        writing: dict[str, Any] = {"language": self.language} if self.drafts else {}
        if self.backbone == NO_MODEL:
            writing["backbone"] = self.backbone
        if self.asks_model:
            names = ("backbone", "language", "samples", "strategy", "width", "branch", "selection", "temperature", "max_tokens", "context",
                     "style", "seed")  # fmt: skip
            writing |= {name: getattr(self, name) for name in names}
            writing |= {"stop": self.stop} if self.stop else {}
            writing |= {"kept": self.kept} if self.kept else {}
            writing |= {"steps": self.steps, "skill_files": str(self.skill_files or "")} if self.strategy == "agent" else {}
            writing |= {"generations": self.turns, "library": self.library_name, "unproved": not self.proved_only}
            writing |= {"redraws": self.resamples, "prompts": str(self.prompts.resolve()) if self.prompts else ""}
        return dict(
            json.loads(encoded(json_text({**own, **asdict(self.judging), **writing, **facts})))
        )  # as a file gives it back
