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

    def watch_triton(self) -> None:
        """Have Triton's compiler tell. What builds the launcher of a kernel, which takes as long, is done with it."""
        try:
            from triton import compiler
        except ImportError:
            return
        compile_kernel = compiler.compile

        def compile_told(*arguments: Any, **options: Any) -> Any:
            with self.told():
                kernel = compile_kernel(*arguments, **options)
                with contextlib.suppress(Exception):  # the launch meets the same error
                    kernel._init_handles()
            return kernel

        compiler.compile = compile_told
