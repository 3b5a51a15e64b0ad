"""A benchmark whose answers are linted: resamples and their tokens stand in the attempt, the setting in the run's head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import FakeJudge, judged_by, run, task_folder, writing
from episodes.decay import answer, kernel

from bottega.bench.caveats import incomparable
from bottega.bench.run_directory import ATTEMPTS, BENCH, read_run
from bottega.core.errors import UsageError

FAULTY = answer(kernel("compile_error") + "\n\ndef f():\n    return nowhere\n")
GOOD = answer(kernel(2.0))


def test_redraws_are_kept_and_compared(tmp_path: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, judge := FakeJudge(), FakeJudge())
    tasks = task_folder(tmp_path)
    again = run(tmp_path / "again", tasks, writing(resamples=3), [FAULTY, GOOD, GOOD, FAULTY, FAULTY, GOOD]).run
    once = run(tmp_path / "once", tasks, writing(), [FAULTY, GOOD, FAULTY]).run
    assert again.settings["redraws"] == 3 and [one.redrawn for one in again.attempts] == [1, 0, 2]
    assert len(judge.judged) == 3 and all(one.verdict and one.verdict.correct for one in again.attempts)
    assert again.attempts[2].prompt_tokens > 2 * once.attempts[2].prompt_tokens
    assert read_run(tmp_path / "again").attempts == again.attempts
    assert any("other resampling: up to 3 against 0" in note for note in incomparable(again, once, "eager"))


def test_a_run_from_before_reads_and_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), FakeJudge(), FakeJudge())
    tasks = task_folder(tmp_path)
    whole = run(tmp_path / "run", tasks, writing(), {".": GOOD}).run
    head = json.loads((tmp_path / "run" / BENCH).read_text())
    del head["settings"]["redraws"]
    (tmp_path / "run" / BENCH).write_text(json.dumps(head))
    lines = (tmp_path / "run" / ATTEMPTS).read_text()
    (tmp_path / "run" / ATTEMPTS).write_text(lines.replace(',"redrawn":0,"repairs":[]', ""))
    assert lines.count('"redrawn":0,"repairs":[]') == 3 and read_run(tmp_path / "run").attempts == whole.attempts
    assert run(tmp_path / "run", tasks, writing(), {".": GOOD}).whole
    with pytest.raises(UsageError, match="redraws 0 then, 3 now"):
        run(tmp_path / "run", tasks, writing(resamples=3), {".": GOOD})
