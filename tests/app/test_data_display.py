from __future__ import annotations

import pytest

from bottega.app import data_display
from bottega.data.judge_stage import Progress


def test_a_cold_start_without_a_terminal_says_now_and_then_that_it_is_alive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log of a batch system it said nothing for hours."""
    progress = Progress(tasks=7, tasks_done=2)
    with data_display.watching(progress):
        progress.changed()
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(data_display, "SELDOM_S", 0.0)
        progress.changed()
        assert capsys.readouterr().err.startswith("[2/7 tasks] 0 judged")
    with data_display.watching(progress, quiet=True):
        progress.changed()
    assert capsys.readouterr().err == ""
