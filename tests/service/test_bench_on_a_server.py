"""`bottega bench --server`: a run whose verdicts and fingerprint come from a server; the judge there is scripted."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted import served
from typer.testing import CliRunner

from bottega.app.bench_command import app
from bottega.bench.run_directory import read_run
from bottega.core.errors import UsageError
from bottega.judge.device_host import LocalDevices
from bottega.judge.fingerprint import fingerprint


def test_a_run_is_judged_there_and_can_be_verified_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalDevices, "judge", None)  # nothing is judged here
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "star_relu.py").write_text("judge 0 ModelNew")
    asked = ["builtin:star_relu", "--candidates", str(theirs), "--out", str(tmp_path / "run"), "quiet=true"]
    with served(tmp_path) as server:
        ran = CliRunner().invoke(app, [*asked, "--server", server.url])
        assert ran.exit_code == 0, (ran.output, ran.exception)
        run = read_run(tmp_path / "run")
        assert [attempt.verdict.diagnosis for attempt in run.attempts if attempt.verdict] == ["judge 0 ModelNew"]
        assert run.fingerprint["cpu"] == fingerprint("cpu")["cpu"] and server.judge.asked == ["judge 0 ModelNew"]
        ran = CliRunner().invoke(app, ["--verify", str(tmp_path / "run"), "share=1", "quiet=true", "--server", server.url])
        assert ran.exit_code == 0, (ran.output, ran.exception)
        assert len(server.judge.asked) == 2, "a record is not verified by the verdicts that it consists of"
        ran = CliRunner().invoke(app, [*asked, "--server", server.url, "--device", "cuda"])
        assert isinstance(ran.exception, UsageError) and "not on cuda" in str(ran.exception)
        ran = CliRunner().invoke(app, [*asked, "--server", server.url, "workers=2"])
        assert isinstance(ran.exception, UsageError) and "the server decides" in str(ran.exception)
