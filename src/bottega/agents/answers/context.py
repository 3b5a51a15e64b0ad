"""What the answer pipeline knows besides the answer itself: the task, the language and how the model was asked."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.languages import language_named


@dataclass(frozen=True)
class AnswerContext:
    task_source: str
    language: str
    style: str = "compact"
    """Of the prompt. Only models that are asked in the terse style were trained to write along a call graph."""

    @property
    def follows_callgraph(self) -> bool:
        """Whether the answer keeps to the conventions of answers that are written along a call graph. The repairs know no others."""
        return self.style == "terse" and language_named(self.language).kernel_library
