"""Settings of `bottega optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from bottega.app.configured import CommandSettings
from bottega.app.language_option import LANGUAGE_HELP
from bottega.app.settings.kinds import Count, Mode, Positive, StrategyName, Style, Workers


class OptimizeSettings(CommandSettings):
    command: ClassVar[str] = "optimize"
    flags: ClassVar[tuple[str, ...]] = ("class", "init", "inputs", "device", "backbone", "out", "resume", "json")

    class_name: Annotated[str | None, Field(alias="class")] = None
    """Which class of the file; not needed where there is only one."""
    function: str | None = None
    """A function of the file, in place of a class."""
    init: str | None = None
    """Constructor arguments: a function of the file, or an expression with torch."""
    inputs: str | None = None
    """Example inputs, in the same way."""
    whole: bool | None = None
    """Optimize the parts of a model that are worth it and measure the model end to end; none is so for models of many parts."""
    modules: Positive = 5
    """Of a capture or a whole model: how many modules to work on, the costliest first."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    language: Annotated[str | None, Field(description=LANGUAGE_HELP)] = None
    baseline: str = "eager"
    """eager, compile, autotune, best (the fastest of them), or several by comma. The first is to be beaten."""
    precision: str = "fp32"
    """fp32 (strict), or what kernel and baseline may use: tf32, bf16, fp16."""
    mode: Mode = "as-built"
    """Judge the module in train or eval mode, or as it was built."""

    strategy: StrategyName | None = None
    """How kernels are searched; none is parallel with the embedded model, else serial."""
    turns: Positive = 4
    """Kernels in a line, each seeing the ones before it; generations."""
    samples: Positive = 2
    """Lines for each selection of skills."""
    schemes: Count = 1
    """Selections of skills, beside writing without any."""
    drafts: Count | None = None
    """Kernels that the rule-based compiler writes before the model does, judged alike; 0 for none, and none is 2."""
    resamples: Count | None = None
    """Sample an answer again, so often at most, where it is seen to be broken before it is judged; none is 3 if terse, else 0."""
    target: float | None = None
    """Stop once it is surely this many times as fast."""
    patience: int | None = None
    """Stop after this many kernels without progress."""
    seed: int = 0
    """Another seed is another search."""
    workers: Workers = "auto"
    """Kernels that are built and tried side by side; auto is what the cores carry."""

    minutes: float | None = None
    """Search for at most this long."""
    kernels: int | None = None
    """At most this many kernels."""
    tokens: int | None = None
    """At most this many tokens, prompts and answers."""
    money: float | None = None
    """At most this much, in the currency of the prices."""
    price_prompt: float | None = None
    """Price of a million prompt tokens of the server."""
    price_output: float | None = None
    """Price of a million output tokens."""

    backbone: str = "embedded"
    """The model: embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE."""
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

    skills: bool = True
    """Write with skills, and propose new ones."""
    library: Path | None = None
    """The skill library's folder; none is yours."""
    proved_only: bool = False
    """Offer admitted skills only, not proposed ones; a new library has only those."""
    summaries: Count = 1
    """Proposals of skills to ask for after a clear gain."""

    out: Path | None = None
    """The run's folder; ./bottega-MODULE-N if left out."""
    resume: bool = False
    """Go on with the run in --out, or with the last one of this module."""
    quiet: bool = False
    """No progress on standard error."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """Print result.json on standard output."""
