"""`bottega` as people call it. In this process where a command ends before a judge or a model is started: a process of its own takes a second."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from bottega.app.cli import main

BOTTEGA = [sys.executable, "-m", "bottega.app.cli"]
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def as_a_process(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [*BOTTEGA, *map(str, arguments)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=300, check=False)
    assert "Traceback" not in told.stderr + told.stdout, told.stderr + told.stdout
    return told


def in_this_process(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    out, err, code = io.StringIO(), io.StringIO(), 0
    words = ["bottega", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, ENVIRONMENT),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
