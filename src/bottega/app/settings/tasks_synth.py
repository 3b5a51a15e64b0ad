"""Settings of `bottega tasks synth`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bottega.app.configured import CommandSettings
from bottega.app.settings.kinds import Numbers, Positive, Seconds, Words, Workers


class TasksSynthSettings(CommandSettings):
    command: ClassVar[str] = "tasks synth"
    flags: ClassVar[tuple[str, ...]] = ("out", "count", "seed", "device", "levels", "families", "like", "json")

    out: Path
    """The folder to write; a run that was interrupted goes on there."""
    count: Positive = 100
    """Accepted tasks that are wanted."""
    seed: int = 0
    """The same seed gives the same tasks."""
    device: str = "cpu"
    """cpu, cuda or cuda:N: where the tasks will be judged."""
    levels: Numbers = (1, 2, 3)
    """Levels of the tasks."""
    families: Words = ()
    """Families of operators, by comma; all if left out. `formulas` alone: primitive operators; `chains` alone: a layer and what follows."""
    like: Words = ()
    """Vary these tasks instead: other functions, operators and constants in the structure that they have."""
    decontaminate: Words = ()
    """Stay away from these tasks: files, folders or data sets."""
    threshold: float = 0.9
    """Similarity to a task of `decontaminate` above which a task is dropped."""
    shard: str = "1/1"
    """2/8: only every eighth task, from the second on."""
    workers: Workers = "auto"
    """Tasks that are examined side by side; auto is what the cores carry."""
    compile: bool = False
    """Keep only what torch.compile can compile, too."""
    filter: bool = True
    """Run every task and keep what can be judged fairly; false writes unmeasured tasks, at once."""
    shortest_ms: float = 0.0
    """Least eager time; 0 is the device's."""
    longest_ms: float = 0.0
    """Most eager time; 0 is the device's."""
    timeout: Seconds = 120.0
    """Seconds that one task may take to be examined."""
    format: Literal["jsonl", "parquet"] = "jsonl"
    """Of the table of tasks."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """One JSON object on standard output."""
