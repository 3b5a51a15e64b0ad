"""Notices of compilation in the middle of a call: a worker sends one before and after, and others may use the device meanwhile.

A Triton kernel is compiled when it is first launched, inside the first call of a module, and that takes longer than everything
else in a trial. A candidate that sends a notice and uses the device instead disturbs others no more than it could while it was built, and gains
nothing: in timed calls the device is not released.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bottega.languages import every_language


class CompileNotice:
    """Sends notices for what this thread compiles between `begin` and `end`."""

    def __init__(self, say: Callable[[dict[str, Any]], None], hear: Callable[[], dict[str, Any]]):
        self.say = say
        self.hear = hear
        self._nonce: int | None = None
        self._thread = threading.get_ident()

    def begin(self, nonce: int) -> None:
        self._nonce = nonce

    def end(self) -> None:
        self._nonce = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        nonce, self._nonce = self._nonce, None  # one kernel may compile another
        if nonce is None or threading.get_ident() != self._thread:
            self._nonce = nonce
            yield
            return
        self.say({"compiling": nonce})
        try:
            yield
        finally:
            self.say({"compiled": nonce})
            self.hear()  # the device is ours again
            self._nonce = nonce

    def watch(self) -> None:
        """Have the compilers of all languages tell."""
        for language in every_language():
            language.watch_compiler(self.told)
