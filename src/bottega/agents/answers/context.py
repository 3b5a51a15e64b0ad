"""What the rules of the answer pipeline know besides the answer itself: the task, the language and the call graph that the prompt showed."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.compiler.callgraph import CallGraph
from bottega.languages import language_named


@dataclass(frozen=True)
class AnswerContext:
    task_source: str
    language: str
    style: str = "compact"
    """Of the prompt. Only models that are asked in the terse style were trained to write along a call graph."""
    callgraph: CallGraph | None = None
    """None where it is not known."""

    @property
    def follows_callgraph(self) -> bool:
        """Whether the answer uses the call graph's names and conventions. Most rules read those, and say nothing about other answers."""
        return self.style == "terse" and language_named(self.language).kernel_library
