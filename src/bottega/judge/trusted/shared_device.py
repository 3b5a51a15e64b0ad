"""A worker's share of the device's lease. It counts the seconds of waiting and compiling, and lets others have the device while a kernel is
compiled in the middle of a call, as Triton does at the first launch."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

from bottega.judge.lease import Lease
from bottega.languages import every_language


class SharedDevice:
    def __init__(self, lease: Lease, on_wait: Callable[[bool], None]) -> None:
        self.lease = lease
        self.on_wait = on_wait
        """Called when a wait in the middle of something begins and ends: it counts against no candidate's time."""
        self.seconds: Counter[str] = Counter()
        """`waiting` and `compiling`, since somebody took them off."""
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

    def yield_to_timer(self) -> None:
        if self._sharing:
            begun = time.monotonic()
            self.on_wait(True)
            self.lease.yield_to_timer()
            self.on_wait(False)
            self._add("waiting", begun)

    def take_seconds(self) -> dict[str, float]:
        taken, self.seconds = self.seconds, Counter()
        return dict(taken)

    def watch_compilers(self) -> None:
        """Have the compilers of all languages run without the lease, unless the device is held alone: then nobody is let in."""
        for language in every_language():
            language.watch_compiler(self._compiling)

    @contextlib.contextmanager
    def _compiling(self) -> Iterator[None]:
        sharing, self._sharing = self._sharing, False  # one kernel may compile another
        begun = time.monotonic()
        try:
            with self.lease.released() if sharing else contextlib.nullcontext():
                try:
                    yield
                finally:
                    self._add("compiling", begun)
                    begun = time.monotonic()
                    self.on_wait(True)
        finally:
            self.on_wait(False)
            self._sharing = sharing
            self._add("waiting", begun)

    def _add(self, what: str, begun: float) -> None:
        self.seconds[what] += time.monotonic() - begun  # type: ignore[assignment]
