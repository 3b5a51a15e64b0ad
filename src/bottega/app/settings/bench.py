"""Settings of `bottega bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bottega.app.configured import CommandSettings
from bottega.app.language_option import LANGUAGE_HELP
from bottega.app.settings.kinds import Count, Mode, Numbers, Paths, Positive, Share, StrategyName, Style, Workers


class BenchCommandSettings(CommandSettings):
    command: ClassVar[str] = "bench"
    flags: ClassVar[tuple[str, ...]] = ("backbone", "candidates", "device", "server", "samples", "out", "verify", "json")

    levels: Numbers = ()
    """Only tasks of these levels, such as 1,2; empty for all."""
    only: str = ""
    """Only tasks whose name fits a pattern, such as *softmax*."""
    limit: Positive | None = None
    """So many tasks, at even distances over the whole set."""

    backbone: str | None = None
    """The model that writes: embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE."""
    samples: Positive = 1
    """Samples of each task, none of which sees another."""
    turns: Positive = 1
    """Kernels of a sample in a row, each seeing the ones before it."""
    strategy: StrategyName = "serial"
    """serial; parallel (samples × turns kernels, all apart); beam or evolve in each sample."""
    width: Positive = 2
    """Of a beam; islands of an evolution."""
    branch: Positive = 2
    """Children of a kernel in a beam, of an island in evolution."""
    resamples: Count | None = None
    """Sample an answer again, so often at most, where it is seen to be broken before it is judged; none is 3 if terse, else 0."""
    language: Annotated[str | None, Field(description=LANGUAGE_HELP)] = None
    seed: int | None = None
    """Of sampling answers: none is 0. Of what `verify` judges again: none is by chance."""
    at_once: Positive | None = None
    """Samples under way at a time, for each device; none is 8, or 256 by a model on the judge's device."""
    temperature: float | None = None
    """0 takes the likeliest answer; none is 1, or what suits the embedded model."""
    max_tokens: Positive | None = None
    """Tokens of one answer; none is 3072, and 8192 from a server."""
    context: int | None = None
    """Tokens that the model takes, prompt and answer together."""
    style: Style | None = None
    """Of prompts: terse for models trained on it, compact for small ones, full for large ones."""
    prompts: Path | None = None
    """A folder of prompt files that override the shipped ones."""
    library: str = "none"
    """A skill library's folder, starter for the set that comes along, or none."""
    selection: Literal["selector", "bm25", "none"] = "selector"
    """Who picks skills: the backbone, the search alone, or nobody."""
    proved_only: bool = False
    """Offer admitted skills only, not proposed ones."""
    money: float | None = None
    """Spend at most this much, over all sessions."""
    tokens: int | None = None
    """At most this many tokens, over all sessions."""
    price_prompt: float | None = None
    """Price of a million prompt tokens of the server."""
    price_output: float | None = None
    """Price of a million output tokens."""

    candidates: Path | None = None
    """Judge the kernels in this folder: KernelBench's run folder, or TASK.py, TASK.0.py, TASK/0.py."""
    name: str = ""
    """Who wrote the kernels, for the record; the model or folder if left out."""

    device: str = "cpu"
    """cpu, cuda, cuda:0,cuda:1, or all: one judge on each."""
    server: str | None = None
    """Judge on the device of this `bottega serve`, by its URL; its token is read from BOTTEGA_TOKEN."""
    workers: Workers = "auto"
    """Kernels built and tried side by side on each device; auto is what the cores carry."""
    baseline: str = "eager"
    """eager, compile, autotune, best (the fastest of them), or several by comma. The first one counts."""
    precision: str = "fp32"
    """fp32 (strict), or what kernel and baseline may use: tf32, bf16, fp16."""
    mode: Mode = "as-built"
    """Judge models in train or eval mode, or as they were built."""
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
    quiet: bool = False
    """No progress on standard error."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """Print the record, or what there is of it, on standard output."""
