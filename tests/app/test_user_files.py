"""What `optimize` accepts, drafts are written for: files of the kind that users have, each compiled, and one of them optimized for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from app.user_corpus import CORPUS

from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.arguments import read_arguments
from bottega.judge.loading import import_source
from bottega.judge.tensor_transport import flatten
from bottega.tasks.module import Wanted, open_module

pytestmark = pytest.mark.rotates

FOLDER = Path(__file__).parent / "user_files"


@pytest.mark.parametrize("name", CORPUS)
@torch.no_grad()
def test_a_draft_of_a_users_file_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, and without a clock: the judge's own tests show that it would find a wrong one."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    file, wanted = CORPUS[name]
    subject = open_module(str(FOLDER / file), Wanted(**wanted))
    draft = DraftCompiler().build(subject.task, "cpp").steps[0].candidate
    task = import_source(subject.task.source, "task")
    initial = read_arguments(task.get_init_inputs(), task.Model)
    original = task.Model(*initial.positional, **initial.keywords)
    kernel = import_source(draft.source, "draft").ModelNew(*initial.positional, **initial.keywords)
    kernel.load_state_dict(original.state_dict())
    given = read_arguments(task.get_inputs(), original.forward)
    (_, expected), (_, got) = (flatten(module(*given.positional, **given.keywords)) for module in (original, kernel))
    tolerance = 2e-2 if expected[0].dtype is torch.bfloat16 else 1e-4
    for want, have in zip(expected, got, strict=True):
        torch.testing.assert_close(have, want, atol=tolerance, rtol=tolerance)


@pytest.mark.slow
def test_a_file_of_a_package_is_optimized_and_used_where_the_package_is(tmp_path: Path) -> None:
    file, wanted = CORPUS["of_a_package"]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    command = [
        sys.executable,
        "-m",
        "bottega.app.cli",
        "optimize",
        str(FOLDER / file),
        "--out",
        str(tmp_path / "run"),
        "json=true",
    ]
    command += [
        "--class",
        wanted["class_name"],
        "--init",
        wanted["init"],
        "--inputs",
        wanted["inputs"],
        "kernels=2",
        "drafts=2",
    ]
    told = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert told.returncode in (0, 3) and "Traceback" not in told.stderr, (
        told.stderr
    )  # a busy machine decides whether it is surely faster
    result = json.loads(told.stdout)
    assert set(result["writers"]) == {"compiler 2"} and not {"runtime_error", "compile_error", "incorrect"} & set(
        result["attempts"]
    )
    if result["outcome"] == "faster":
        script = "import sys, torch, optimized; from shop.model import Residual\nfast = optimized.load(Residual(256))\n"
        script += "with torch.no_grad(): fast(torch.randn(512, 256))\nassert fast.calls == 1, fast.fallbacks\n"
        paths = os.pathsep.join([str(tmp_path / "run"), str(FOLDER)])
        subprocess.run([sys.executable, "-c", script], env={**environment, "PYTHONPATH": paths}, check=True)
