"""Tasks that a server has itself: the built-in suite, and those that its operator names. They are looked up by name, never by path."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property

from bottega.bench.shard import PROBE
from bottega.core.errors import UsageError
from bottega.core.foreign_text import one_line
from bottega.core.task import Task
from bottega.tasks.load import load_tasks


class KnownTasks:
    def __init__(self, references: Sequence[str] = (), size: str = "cpu") -> None:
        """`size` of built-in tasks: cpu or gpu."""
        self._references, self._size = ("builtin", *references), size

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        return (*load_tasks(self._references, size=self._size).tasks, PROBE)

    @cached_property
    def _by_name(self) -> dict[str, Task]:
        return {name: task for task in reversed(self.tasks) for name in (task.name, task.origin, task.id) if name}

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(task.source for task in self.tasks)

    def get(self, name: str) -> Task | None:
        """By `builtin:NAME`, name, origin or id."""
        return self._by_name.get(name)

    def rows(self) -> list[dict[str, str]]:
        """What a client may name, and its id."""
        return [{"name": task.label, "id": task.id} for task in self.tasks if task is not PROBE]

    def has_source(self, source: str) -> bool:
        return source in self._sources

    def unknown(self, name: str) -> UsageError:
        close = get_close_matches(name, list(self._by_name), 3)
        hint = (
            f"did you mean {' or '.join(close)}?" if close else "send the task's source, or name one such as builtin:star_relu"
        )
        return UsageError(f"no task is called {one_line(name)!r} here; {hint}")
