"""A worker's share of the device's lease, and the seconds of its stages. Others have the device while a kernel is compiled in the middle of a
call, as Triton does at the first launch; waiting and compiling are counted apart from the stage in which they happen."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from bottega.judge.device_lock import Lease
from bottega.languages import every_language


class SharedDevice:
    def __init__(self, lease: Lease, on_stage: Callable[[str], None]) -> None:
        self.lease = lease
        self.on_stage = on_stage
        """Called with the name of every stage as it begins, and with `waiting`, which counts against no candidate's time."""
        self._seconds: Counter[str] = Counter()
        self._stage = ""
        self._sharing = False

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._stage = name
        self.on_stage(name)
        begun, apart = time.monotonic(), self._seconds["waiting"] + self._seconds["compiling"]
        try:
            yield
        finally:
            apart -= self._seconds["waiting"] + self._seconds["compiling"]
            self._add(name, begun - apart)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        self.on_stage("waiting")
        begun = time.monotonic()
        with self.lease.shared():
            self._add("waiting", begun)
            self._sharing = True
            try:
                yield
            finally:
                self._sharing = False

    def yield_to_timer(self, settle: Callable[[], None]) -> None:
        if self._sharing:
            begun = time.monotonic()
            self.on_stage("waiting")
            self.lease.yield_to_timer(settle)
            self.on_stage(self._stage)
            self._add("waiting", begun)

    def take_seconds(self) -> dict[str, float]:
        """Seconds by stage since the last call."""
        taken, self._seconds = self._seconds, Counter()
        return {name: round(seconds, 4) for name, seconds in taken.items()}

    def watch_compilers(self) -> None:
        """Have the compilers of all languages run without the lease, unless the device is held alone: then nobody is let in."""
        for language in every_language():
            language.watch_compiler(partial(self.released, "compiling"))

    @contextlib.contextmanager
    def released(self, counted: str = "") -> Iterator[None]:
        """Others have the device meanwhile: while a kernel is compiled, which is counted apart from the stage, or while the host builds a module."""
        sharing, self._sharing = self._sharing, False  # one kernel may compile another
        begun = time.monotonic()
        try:
            with self.lease.released() if sharing else contextlib.nullcontext():
                try:
                    yield
                finally:
                    if counted:
                        self._add(counted, begun)
                    begun = time.monotonic()
                    self.on_stage("waiting")
        finally:
            self.on_stage(self._stage)
            self._sharing = sharing
            self._add("waiting", begun)

    def _add(self, what: str, begun: float) -> None:
        self._seconds[what] += time.monotonic() - begun  # type: ignore[assignment]
