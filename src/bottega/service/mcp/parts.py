"""What the tools work with: judges, library, folders, and how an argument of a call becomes a task or a text."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.service.mcp.judges import JudgePool
from bottega.service.tokens import Token
from bottega.skills.library import Library
from bottega.tasks.load import load_task

REMEMBERED = 256
"""Verdicts that explain_verdict knows by their id."""


@dataclass
class McpParts:
    """What the tools work with."""

    judges: JudgePool
    library: Callable[[], Library]
    """Opened when it is first asked for."""
    command: tuple[str, ...]
    """How this Bottega is called, for the search."""
    folder: Path
    """Where searches keep their runs."""
    files: bool = True
    """Whether arguments may name files and models of this machine: over stdio, where client and server are one user's."""
    backbones: tuple[str, ...] = ()
    """Addresses of model servers that a search may use over HTTP, beside the embedded model."""
    verdicts: OrderedDict[str, Verdict] = field(default_factory=OrderedDict)

    def keep(self, verdict: Verdict) -> str:
        key = f"{verdict.candidate_id}-{secrets.token_hex(8)}"  # nobody can guess it from the text alone
        self.verdicts[key] = verdict
        self.verdicts.move_to_end(key)
        while len(self.verdicts) > REMEMBERED:
            self.verdicts.popitem(last=False)
        return key

    def text(self, given: str, kind: str) -> str:
        """The text itself, or that of the file that it names."""
        if "\n" in given or not given.strip():
            return given
        if not self.files:
            raise UsageError(f"{kind}: send the text itself; files of the server cannot be named over HTTP")
        try:
            found = Path(given).expanduser()
            if found.stat().st_size > SOURCE_LIMIT:
                raise UsageError(f"{given}: larger than {SOURCE_LIMIT >> 10} KiB")
            return found.read_text(encoding="utf-8")
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"{kind} {given[:200]!r}: neither a Python text nor a file that can be read: {error}") from None

    def task(self, given: str, device: str, token: Token) -> Task:
        size = "cpu" if (device or self.judges.devices[0]) == "cpu" else "gpu"
        if given.startswith("builtin:") and "\n" not in given:
            return load_task(given, size=size)
        if not token.limits.own_tasks:
            raise UsageError(
                "this token may name built-in tasks only, such as builtin:star_relu: a task is trusted with its verdicts"
            )
        return Task(self.text(given, "task")).validate()
