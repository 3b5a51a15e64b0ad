"""Settings of `bottega optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bottega.core.setting_kinds import Cluster, Count, Positive
from bottega.episodes.settings import StrategyName
from bottega.episodes.writing_settings import WritingSettings


class OptimizeSettings(WritingSettings):
    command: ClassVar[str] = "optimize"
    flags: ClassVar[tuple[str, ...]] = (
        "class",
        "init",
        "inputs",
        "device",
        "cluster",
        "backbone",
        "out",
        "resume",
    )

    class_name: Annotated[str | None, Field(alias="class")] = None
    """Which class of the file; not needed where there is only one."""
    function: str | None = None
    """A function of the file, in place of a class."""
    init: str | None = None
    """Constructor arguments: a function of the file, or an expression with torch."""
    inputs: str | None = None
    """Example inputs, in the same way."""
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    """Of weights and inputs that the file has in float32, as `.to(torch.bfloat16)` makes them. Left out, they stay; of hf: bfloat16 on a GPU."""
    whole: bool | None = None
    """Optimize the parts of a model that are worth it and measure the model end to end; if left out, models of many parts."""
    method: str = ""
    """Of a whole model: the method that is called in place of the model, with `inputs` as its arguments, such as generate."""
    modules: Positive = 5
    """Of a capture or a whole model: how many modules to work on, the costliest first. Those that no kernel is written for are not counted."""
    compile_minutes: float | None = 10
    """Of a whole model: how long after the search compiled forms of it may take, the baselines' and those with faster parts in them. On a GPU the
    baselines begin to compile with the search, if memory allows. What is not over by then is not measured; none for as long as it takes."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    server: str | None = None
    """Have kernels judged by this `bottega serve`, whose device --device names; the token, which needs own_tasks, is read from BOTTEGA_TOKEN."""
    cluster: Cluster = None
    baseline: str = "eager"
    """eager, compile, autotune, best (the fastest of them), or several by comma. The first is to be beaten."""

    strategy: StrategyName | None = None
    """serial, critic, agent (with tools), parallel, beam, evolve, tree or scientist; if left out parallel for the embedded model, else serial."""
    turns: Positive = 4
    """Kernels in a line, each seeing the ones before it; generations; rounds."""
    kept: Count = 0
    """Of a long line of strategy=serial: kernels that the next one sees, the last and the best of those before it; 0 shows all."""
    samples: Positive = 2
    """Lines for each selection of skills; width of a beam; islands; kernels of a round in a tree and of a scientist."""
    knobs: Count | None = None
    """Settings of a right kernel's tuning parameters (tiles, warps, …) that are measured, with evolve of each kernel, else of the best one at the
    end. If left out 6 with evolve and on a GPU of this machine, else 0."""
    exploration: Annotated[float, Field(ge=0)] = 1.0
    """Of strategy=tree: more tries kernels that were seldom built upon, 0 only the fastest."""
    instructions: Literal["list", "model"] | None = None
    """Who varies the instructions of strategy=evolve: a fixed list or the model; if left out the list if terse, else the model."""
    steps: Positive = 200
    """Answers of an agent in a line, at most."""
    skill_files: Path | None = None
    """A folder whose SKILL.md files an agent may read, as they are."""
    schemes: Count = 1
    """Selections of skills, beside writing without any."""
    drafts: Count | None = None
    """Kernels that the rule-based compiler writes before the model does. If left out 2."""
    target: float | None = None
    """Stop once it is surely this many times as fast."""
    patience: int | None = None
    """Stop after this many kernels without progress."""
    seed: int = 0
    """Another seed is another search."""

    minutes: float | None = 30
    """Search for at most this long; none for as long as it takes. Of several modules: all of them, and a minute more at most for last verdicts."""
    kernels: int | None = None
    """At most this many kernels."""

    backbone: str = "embedded"
    """The model: embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE; none for the compiler's drafts alone."""

    skills: bool = True
    """Write with skills, and propose new ones."""
    library: Path | None = None
    """The skill library's folder; yours if left out."""
    summaries: Count = 1
    """Proposals of skills to ask for after a clear gain."""

    out: Path | None = None
    """The run's folder; ./bottega-MODULE-N if left out."""
    resume: bool = False
    """Go on with the run in --out, or with the last one of this module."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """Print result.json on standard output."""
