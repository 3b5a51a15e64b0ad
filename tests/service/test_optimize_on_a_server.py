"""`bottega optimize server=URL` and `bottega check --server URL`: the search runs here; verdicts, and what delivering asks, come from a server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripted import TASK, ScriptedJudge, served
from typer.testing import CliRunner

from bottega.app.check_command import app as check
from bottega.app.optimize_command import app
from bottega.core.candidate import Candidate
from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.delivery import probe
from bottega.judge.device_host import LocalDevices
from bottega.judge.judge import Judge
from bottega.judge.remote import RemoteJudge
from bottega.service.judging import PROBE_ENTRY
from bottega.service.limits import TokenLimits
from bottega.tasks.load import load_task

MODULE = "import torch\nfrom torch import nn\n\n\nclass Gate(nn.Module):\n    def forward(self, x):\n        return torch.sigmoid(x) * x\n"


@dataclass
class TrustingJudge(ScriptedJudge):
    """Every kernel is faster. What is delivered is tried out in this process, as the sandboxed probe does it."""

    def judge(self, task: Task, candidate: Candidate, *, cancellation: Any, **options: Any) -> Verdict:
        self.asked.append("judge")
        faster = {"eager": Speedup(2.0, 1.9, 2.1)}
        return Verdict(Outcome.FASTER, True, faster, baseline="eager", task_id=task.id, candidate_id=candidate.id)

    def ask(self, entry: str, label: str, *, cancellation: Any, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["do"])
        return {"describe": probe.describe, "try_out": probe.try_out}[arguments["do"]](arguments | {"device": "cpu"})


def searched(folder: Path, url: str, *more: str) -> Any:
    (folder / "gate.py").write_text(MODULE)
    (folder / "none.json").write_text('["nothing"]')
    words = [
        str(folder / "gate.py"),
        "--inputs",
        "torch.randn(32, 64)",
        "--out",
        str(folder / "run"),
        "json=true",
        "skills=false",
    ]
    words += [f"server={url}", "--backbone", f"scripted:{folder / 'none.json'}", "drafts=1", "kernels=1", "quiet=true", *more]
    return CliRunner().invoke(app, words)


@pytest.mark.rotates
def test_a_search_is_judged_and_delivered_by_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalDevices, "judge", None)  # nothing is judged here
    judge = TrustingJudge()
    with served(tmp_path, {"alice": TokenLimits(own_tasks=True), "guest": TokenLimits()}, judge) as server:
        monkeypatch.setenv("BOTTEGA_TOKEN", server.tokens["guest"])
        assert "own_tasks" in str(searched(tmp_path, server.url).exception)
        monkeypatch.setenv("BOTTEGA_TOKEN", server.tokens["alice"])
        ran = searched(tmp_path, server.url)
        assert ran.exit_code == 0, (ran.output, ran.exception)
        assert judge.asked == ["judge", "describe", "judge", "try_out"]
        assert json.loads(ran.stdout.splitlines()[-1])["outcome"] == "faster" and (tmp_path / "run" / "optimized.py").is_file()
        checked = CliRunner().invoke(check, [str(tmp_path / "run"), "--server", server.url, "--json"])
        assert checked.exit_code == 0, (checked.output, checked.exception)
        assert json.loads(checked.stdout.splitlines()[-1])["holds"] and judge.asked[4:] == ["judge"]
        whole = searched(tmp_path, server.url, "whole=true")
        assert isinstance(whole.exception, UsageError) and "on this machine" in str(whole.exception)
        both = searched(tmp_path, server.url, "--cluster", "auto")
        assert isinstance(both.exception, UsageError) and "one of them" in str(both.exception)


def test_a_probe_is_answered_to_whoever_may_send_tasks(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": TokenLimits(own_tasks=True), "guest": TokenLimits()}) as server:
        with RemoteJudge(server.url, server.tokens["alice"], precision="bf16", baselines=("best",)) as judge:
            found = judge.ask("anything", "gate.py", do="try_out", source=TASK, delivered="text", load="load_2")
            assert found["entry"] == PROBE_ENTRY and found["precision"] == "bf16" and found["training"] is None
            assert (found["do"], found["delivered"], found["load"], found["source"]) == ("try_out", "text", "load_2", TASK)
            with pytest.raises(TaskError, match="is broken"):
                judge.ask("anything", "gate.py", do="describe", source="broken")
            for wrong in ({"do": "delete"}, {"do": "try_out", "load": "a.b"}):
                with pytest.raises(UsageError, match=r"do: must be|load: must match"):
                    judge.ask("anything", "gate.py", source=TASK, **wrong)
        body = {"task": {"id": "builtin:star_relu"}, "do": "describe"}
        status, _, told = server.ask("POST", "/v1/probes", body, "guest")
        assert status == 403 and "own_tasks" in told["error"]


@pytest.mark.slow
def test_a_real_judge_behind_the_server_tries_out_what_is_delivered(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with served(tmp_path / "server", judge=Judge("cpu")) as server:  # type: ignore[arg-type]
        ran = searched(tmp_path, server.url)
        told = json.loads(ran.stdout.splitlines()[-1])
        assert told["outcome"] in ("faster", "none"), (ran.output, ran.exception)
        with RemoteJudge(server.url) as judge:
            found = judge.ask(PROBE_ENTRY, "task", do="describe", source=load_task("builtin:star_relu").source)
            assert found["class"] == "Model" and found["calls"]
