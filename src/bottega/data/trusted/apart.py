"""Compiling in the middle of a call: a Triton kernel is compiled when it is first launched, and others may have the device meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from bottega.judge.lease import Lease


class Apart:
    """The lease as a worker shares it. Knows how long was waited and compiled."""

    def __init__(self, lease: Lease, waits: Callable[[bool], None]) -> None:
        self.lease = lease
        self.waits = waits
        """Told when waiting in the middle of something begins and ends: it counts for no kernel."""
        self.spent: Counter[str] = Counter()
        self._sharing = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        begun = time.monotonic()
        with self.lease.shared():
            self._add("waiting", begun)
            self._sharing = True
            try:
                yield
            finally:
                self._sharing = False

    def breathe(self) -> None:
        """Let a timer in that waits."""
        if self._sharing:
            begun = time.monotonic()
            self.waits(True)
            self.lease.breathe()
            self.waits(False)
            self._add("waiting", begun)

    def watch_triton(self) -> None:
        """Have Triton's compiler run without the lease, unless the device is had alone: then nobody is let in."""
        try:
            from triton import compiler
        except ImportError:
            return
        compile_kernel = compiler.compile

        def compile_apart(*arguments: Any, **options: Any) -> Any:
            with self._apart():
                kernel = compile_kernel(*arguments, **options)
                with contextlib.suppress(Exception):  # builds the launcher; whoever launches it meets the same
                    kernel._init_handles()
            return kernel

        compiler.compile = compile_apart

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        sharing, self._sharing = self._sharing, False  # one kernel may compile another
        begun = time.monotonic()
        try:
            with self.lease.apart() if sharing else contextlib.nullcontext():
                try:
                    yield
                finally:
                    self._add("compiling", begun)
                    begun = time.monotonic()
                    self.waits(True)
        finally:
            self.waits(False)
            self._sharing = sharing
            self._add("waiting", begun)

    def _add(self, what: str, begun: float) -> None:
        self.spent[what] += time.monotonic() - begun  # type: ignore[assignment]
