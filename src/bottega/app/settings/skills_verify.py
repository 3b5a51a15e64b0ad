"""Settings of `bottega skills verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from bottega.app.configured import CommandSettings
from bottega.app.settings.kinds import Words, Workers


class SkillsVerifySettings(CommandSettings):
    command: ClassVar[str] = "skills verify"
    flags: ClassVar[tuple[str, ...]] = ("task", "sibling", "writer", "backbone", "library", "device", "seed", "json")

    task: str
    """The task that the card came from, or that shows it best: a file or builtin:NAME."""
    sibling: Words
    """Another task where it should help; may be given often."""
    writer: str | None = None
    """A program that reads {task, name, skills, seed, language, device} as JSON on standard input and prints a candidate."""
    backbone: str | None = None
    """Or the model that writes: embedded, local:PATH or server:MODEL@URL."""
    library: Path | None = None
    """The library's folder; none is yours."""
    beside: Words = ()
    """Cards that both arms get."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    baseline: str = "eager"
    """eager, compile, autotune or best."""
    threshold: float = 1.05
    """The factor that the gain must surely exceed."""
    rounds: int = 32
    """Pairs on each task, at most."""
    seed: int = 0
    """The first seed. Another seed is another proof."""
    workers: Workers = "auto"
    """Attempts side by side; auto is what the cores carry."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """JSON on standard output."""
