"""What a kernel language is: one class, whose attributes and methods answer every question that another package has about it.

The base class is a language without kernels. A new language is a subclass in a file of its own, named in the registry's table, in an
entry point of the group `bottega.languages`, or as `module:Name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

Around = Callable[[], AbstractContextManager[None]]


class Language:
    name: str
    """In records, on the command line, and in cards."""
    title: str
    """In prompts and reports."""
    fence: str = "python"
    """The tag of a Markdown block that holds an example."""
    aliases: tuple[str, ...] = ()
    """Other names that a model may write for it in a card."""
    precedence: int = 0
    """A text that several languages recognise belongs to the one with the highest."""
    devices: tuple[str, ...] = ()
    """Kinds of device on which its kernels are timed; empty for a language without kernels of its own."""
    interpreted: tuple[str, ...] = ()
    """Kinds of device on which its kernels run in an interpreter: such a run shows correctness only."""
    is_default: bool = False
    """Whether its devices' kernels are written in it when no language is asked for."""

    embedded: bool = False
    """Whether kernels are text of another language inside Python strings."""
    decorators: tuple[str, ...] = ()
    """Otherwise kernels are Python functions with one of these decorators."""
    needs: str = ""
    """What a machine needs beside torch to run a delivered file."""
    index_bit: int = 0
    """Stands for it in search indexes on disk: 8 to 128 for built-in languages; 0 derives one from the name."""
    card_prefix: str = ""
    """How names of cards begin that only this language can use."""

    modules: tuple[str, ...] = ()
    """Imported once in the fork server, so that no candidate waits for them."""
    variables: tuple[str, ...] = ()
    """How names of environment variables begin that reach the sandbox."""
    folders: tuple[str, ...] = ()
    """Folders outside the Python environment that its compiler reads."""

    summary: str = ""
    """The interface in a sentence, for prompts of small models."""
    rules: str = ""
    """How kernels are written here, for prompts of large models."""
    example: str = ""
    """A whole file for a `Model` that returns `torch.relu(x) * self.gain`."""

    compiler: str = ""
    """`module:Name` of the rule-based compiler's backend; empty where it has none."""
    rewrites: str = ""
    """`module:Name` of the rules that take its kernels apart, for `bottega lineage`; empty where it has none."""
    kernel_library: bool = False
    """Whether the kernel library has functions in this language, which an answer may call by their names."""

    def recognises(self, source: str) -> bool:
        """Whether a candidate's text is written in it. The text is a stranger's: read it in one pass, see `core/foreign_text.py`."""
        return False

    def recognises_snippet(self, text: str) -> bool:
        """Whether a piece of a kernel, or prose about one, speaks of it."""
        return False

    def kernel_names(self, source: str) -> Iterator[str]:
        """Names of the kernels that a text defines, whether or not they ever run. Coverage takes these for the candidate's own."""
        return iter(())

    def hints(self, problem: str, source: str) -> Iterator[str]:
        """Sentences for the next attempt, by what was wrong and what the text has."""
        return iter(())

    def warm(self) -> None:
        """Make its compiler ready, once in the fork server. Must start no thread and initialise no device."""

    def watch_compiler(self, around: Around) -> None:
        """Have every compilation of this process run inside `around()`, where kernels are compiled at their first launch."""

    @property
    def has_kernels(self) -> bool:
        return bool(self.devices)

    @property
    def on_gpu(self) -> bool:
        """Whether its kernels are for a GPU."""
        return self.has_kernels and "cpu" not in self.devices

    def is_timed_on(self, device: str) -> bool:
        """False where it runs in an interpreter. `device` may have a number: `cuda:1`."""
        return device.partition(":")[0] not in self.interpreted

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
