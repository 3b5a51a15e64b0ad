"""A signal asks a run to stop after its step; the same one twice at once is one; a later one ends it."""

from __future__ import annotations

import os
import signal

import pytest

from bottega.app import sft_command
from bottega.app.sft_command import asked_to_stop


def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    said: list[str] = []
    with asked_to_stop(said.append) as asked:
        assert not asked
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert asked == [signal.SIGINT] and len(said) == 1


def test_a_second_signal_later_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sft_command, "ONE_SIGNAL_S", 0.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), asked_to_stop(None):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
