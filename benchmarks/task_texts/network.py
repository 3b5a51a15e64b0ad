"""A network as a task: one text, at one or several sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

from task_texts.text import TaskText


@dataclass(frozen=True)
class Network:
    name: str
    sizes: dict[str, str]
    """By the end of the task's name."""
    shape: str
    init: str
    forward: str
    arguments: str = ""
    before: str = ""
    inputs: tuple[str, ...] = field(default=())
    """Of more than one input, all shapes."""
    takes: str = "x"

    def texts(self) -> list[TaskText]:
        shapes = self.inputs or (self.shape,)
        return [
            TaskText(
                f"{self.name}{'_' if end else ''}{end}", 3, sizes, shapes, self.forward, self.init, self.arguments, self.takes, self.before
            )
            for end, sizes in self.sizes.items()
        ]  # fmt: skip
