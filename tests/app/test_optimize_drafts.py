"""`bottega optimize drafts=N` and `bottega data drafts` as processes, with the real compiler, the real judge and a real compiler.

The module is a chain of elementwise operators. That a draft wins is tested without a clock, in tests/episodes/test_optimise.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from app.command_line import as_a_process
from episodes.decay import BROKEN, script
from module_task import module_task

from bottega.core.event import Drafted, Judged, Wrote
from bottega.episodes.backbone_defaults import DRAFTS, DRAFTS_ALONE, draft_count, drafting_seconds
from bottega.episodes.journal import read_events

CHAIN = module_task("x", "torch.randn(256, 1024)", before="for _ in range(6): x = torch.tanh(x * 1.1 + 0.1)")
USED = ["skills=false", "samples=1", "turns=1", "drafts=1"]


@pytest.mark.slow
def test_a_draft_is_judged_told_apart_and_not_judged_again(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    command = ["optimize", tmp_path / "chain.py", *USED, "--backbone", script(tmp_path, [BROKEN]), "--out", tmp_path / "run"]
    told = as_a_process(*command)
    assert told.returncode in (0, 3), told.stderr  # whether it is surely faster, a busy machine decides
    assert "compiler 2 wrote 1 draft" in told.stderr and "  1  draft1  " in told.stderr
    assert "by compiler 2: 1 " in told.stdout and "by the model: 1 no kernel" in told.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["author"], result["node"]) == (("compiler 2", "draft1") if told.returncode == 0 else ("", ""))
    assert list(result["writers"]) == ["compiler 2", "the model"] and result["writers"]["the model"] == {"no kernel": 1}
    assert "1. draft1 by compiler 2" in (tmp_path / "run" / "report.md").read_text()
    assert "<td>draft1</td>\n<td>compiler 2</td>" in (tmp_path / "run" / "report.html").read_text()
    events = list(read_events(tmp_path / "run"))
    assert [event.author for event in events if isinstance(event, Wrote)] == ["compiler 2", ""]
    (first, *_) = [event.verdict for event in events if isinstance(event, Judged)]
    assert first.correct, first.diagnosis

    again = as_a_process(*command, "--resume")
    assert again.returncode == told.returncode, again.stderr
    later = list(read_events(tmp_path / "run"))[len(events) :]
    assert not any(isinstance(event, Judged | Drafted | Wrote) for event in later), "a draft was drawn or judged twice"


@pytest.mark.slow
def test_drafts_of_tasks_are_files_for_a_bench(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    (tmp_path / "luck.py").write_text(CHAIN.replace("return x\n", "return x + torch.rand_like(x)\n"))
    told = as_a_process(
        "data", "drafts", tmp_path / "chain.py", tmp_path / "luck.py", "--drafts", 1, "--out", tmp_path / "drafts"
    )
    assert told.returncode == 0, told.stderr
    assert [path.name for path in (tmp_path / "drafts").iterdir()] == ["chain.0.py"]
    assert "luck: no draft: " in told.stderr and "1 kernels by compiler 2 for 1 of 2 tasks" in told.stdout


@pytest.mark.parametrize(
    ("backbone", "kernels", "chosen", "count"),
    [("embedded", None, None, DRAFTS), ("embedded", 2, None, 1), ("server:x@http://y", 1, None, 0), ("scripted:x", None, None, 0),
     ("scripted:x", 1, 3, 3), ("none", None, None, DRAFTS_ALONE), ("none", 5, None, 5)],
)  # fmt: skip
def test_of_few_kernels_half_are_left_to_the_model(backbone: str, kernels: int | None, chosen: int | None, count: int) -> None:
    assert draft_count(backbone, kernels, chosen) == count


def test_tracing_takes_a_part_of_a_short_run() -> None:
    assert drafting_seconds(None) == 60 and drafting_seconds(42) == 14
