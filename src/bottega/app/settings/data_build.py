"""Settings of `bottega data build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bottega.core.setting_kinds import Cluster, Count, Numbers, Positive, Seeds, Share, Style, Words, Workers
from bottega.core.settings import CommandSettings, Section
from bottega.episodes.writing_settings import LANGUAGE_HELP


class CapSettings(Section):
    """How many examples may share something. 0 sets no bound."""

    task: Count = 4
    """Examples of a kind for one task and language."""
    ops: Count = 24
    """Examples of a role for one operator combination."""
    technique: Count = 0
    """Examples of a role for one set of techniques; 0 is an eighth of them, at least 200."""
    structure: Count = 16
    """Examples of a role for kernels of one shape."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Largest share of one level, language, outcome or kind."""


class DataBuildSettings(CommandSettings):
    command: ClassVar[str] = "data build"
    flags: ClassVar[tuple[str, ...]] = ("out", "device", "cluster", "teacher", "languages", "stage", "style", "json")

    out: Path = Path("cold-start")
    """Where material and data are kept."""
    stage: Literal["teach", "judge", "examples", "all"] = "all"
    """What is done: kernels are written, judged, made into examples."""

    teacher: str = "compiler"
    """Who writes: compiler (rule-based); parts: of its kernels the last of each task, for training a small model; llm with a
    backbone; or module:Class for one of your own."""
    backbone: str = ""
    """The model of the llm teacher: local:PATH, server:MODEL@URL …"""
    languages: Annotated[Words, Field(description=f"By comma: {LANGUAGE_HELP}")] = ()
    level: Numbers = ()
    """Only tasks of these levels; empty for all."""
    limit: Count = 0
    """At most this many tasks, the first; 0 for all."""
    seeds: Seeds = (0,)
    """Seeds, for teachers that vary: how many, or a list by comma."""

    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    cluster: Cluster = None
    workers: Workers = "auto"
    """Kernels judged side by side; auto is what the cores carry, all but two with trust_teacher."""
    teachers: Positive = 2
    """Processes of the teacher."""
    baseline: str = "eager"
    """eager, compile, autotune, best (the fastest of them), or several by comma. The first one counts."""
    mistakes: Count = 3
    """Wrong variants of a kernel; 0 for none."""
    proofs: Count = 8
    """Cards put to the admission gate; 0 for none, and no summaries."""
    rounds: Positive = 24
    """Pairs of attempts on each task of a proof, at most."""
    timeout: Annotated[float, Field(ge=0)] = 0.0
    """Seconds of a kernel's own time; 0 for 60, or 20 with trust_teacher."""
    trust_teacher: bool = False
    """Judge without isolation, which is ten times as fast; for teachers that are programs of ours."""
    audit: Share = 0.02
    """Share of such verdicts that the judge gives again."""
    steps: str = "all"
    """Which of a teacher's kernels for a task are judged: all, ends, or a number."""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    """Begin no further task after this long; 0 for never."""
    retry: bool = False
    """Ask again for what failed before."""

    style: Style = "compact"
    """Of prompts: terse for models trained on it, compact for small ones, full for large ones."""
    tokenizer: str = ""
    """embedded, or a model's folder or name; lengths are estimated if left out."""
    max_tokens: Count = 0
    """Leave out longer examples; 0 for none."""
    concise: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Learn the shortest kernel with this share of the best one's speed; 1 is the fastest."""
    believed: bool = False
    """Summaries also of cards that helped on one task and no gate has proved, marked as such."""
    unjudged: bool = False
    """A first attempt also of kernels that nobody judged, marked as such."""
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of operator combinations kept for testing."""
    filter: bool = True
    """Leave out what the caps say; false keeps everything."""
    caps: CapSettings = CapSettings()
    """How many examples may share something."""
    format: Literal["jsonl", "parquet"] = "jsonl"
    """Of the files with examples."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """One JSON object on standard output."""
