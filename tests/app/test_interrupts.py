"""A signal asks a run to stop after its step; the same one twice at once is one; a later one ends it."""

from __future__ import annotations

import os
import signal

import pytest

from bottega.app import interrupts
from bottega.app.interrupts import stop_after_step


def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    said: list[str] = []
    with stop_after_step(said.append) as asked:
        assert not asked
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert asked == [True] and len(said) == 1


def test_a_second_signal_later_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ONE_SIGNAL_S", 0.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_after_step(print):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
