"""`bottega.optimize` in a script: the real search and the real probe, and a judge whose verdicts no clock decides."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import bottega
from bottega.app import optimize_run
from bottega.app.optimize_python import Optimized
from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.delivery import probe
from bottega.judge.device_host import LocalDevices


class Gate(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return torch.tanh(x * scale) * self.weight + torch.sigmoid(x)


class TrustingJudge:
    """Every kernel is faster. What is delivered is tried out in this process, as the sandboxed probe does it."""

    def __init__(self, *_: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> TrustingJudge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def fitness(self, task: Task) -> dict[str, Any]:
        return {"facts": {}, "problems": [], "unavailable": {}}

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, baseline="eager")

    def ask(self, entry: str, label: str, do: str, **arguments: Any) -> dict[str, Any]:
        arguments |= {"device": "cpu", "training": None, "precision": "fp32"}
        return {"describe": probe.describe, "try_out": probe.try_out}[do](arguments)


def trust(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(LocalDevices, "judge", lambda self, *_, **options: TrustingJudge(*_, **options))
    patch.setattr(sys, "meta_path", list(sys.meta_path))
    patch.setenv("TMPDIR", str(folder))


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trust(monkeypatch, tmp_path)


def scripted(folder: Path) -> str:
    """A model that is never asked."""
    (folder / "none.json").write_text('["nothing"]')
    return f"scripted:{folder / 'none.json'}"


MODEL, X = Gate(64).eval(), torch.randn(32, 64)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Optimized]:
    folder = tmp_path_factory.mktemp("optimized")
    with pytest.MonkeyPatch.context() as patch:
        trust(patch, folder)
        yield bottega.optimize(MODEL, X, out=folder / "run", quiet=True, backbone=scripted(folder), drafts=1, kernels=1)


def test_a_result_is_trusted_as_it_was_handed_over(fast: Optimized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noting(TrustingJudge):
        trusted: ClassVar[list[bool]] = []

        def judge(self, task: Task, candidate: Candidate, own_code: bool) -> Verdict:
            self.trusted.append(own_code)
            return Verdict(Outcome.AMBIGUOUS, True)

    monkeypatch.setattr(optimize_run, "Judge", Noting)
    folder = Path(shutil.copytree(fast.folder, tmp_path / "run"))
    own = fast.result.model_copy(update={"fingerprint": {"settings": {"own_code": True}}}).sealed()
    (folder / "result.json").write_text(own.text())
    optimize_run.check(folder, own)
    optimize_run.check(folder, fast.result)
    (folder / "optimized.py").write_text((folder / "optimized.py").read_text() + "# of a stranger")
    optimize_run.check(folder, own)
    assert Noting.trusted == [True, False, False]


@torch.no_grad()
def test_a_module_is_faster_in_three_lines(fast: Optimized, tmp_path: Path) -> None:
    assert fast.found and fast.result.author.startswith("compiler")
    torch.testing.assert_close(fast(X), MODEL(X))
    assert fast.module.calls == 1 and fast.module.weight is MODEL.weight
    assert pickle.loads(pickle.dumps(fast.module)).calls == 1
    assert fast.result.command == "", "a script's arguments are no command of ours"
    assert fast.report.startswith("#") and (fast.save(tmp_path / "kept") / "optimized.py").is_file()


@pytest.mark.rotates
@torch.no_grad()
def test_one_part_of_a_model_is_put_in_its_place(trusting: None, tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), Gate(64)).eval(), torch.randn(32, 64)
    expected, names = model(x), list(model.state_dict())
    options: dict[str, Any] = {"quiet": True, "backbone": scripted(tmp_path), "drafts": 1, "kernels": 1}
    fast = bottega.optimize(model, x, submodule="1", out=tmp_path / "run", **options)
    assert model[1] is fast.module and list(model.state_dict()) == names
    torch.testing.assert_close(fast(x), expected)
    assert fast.module.calls == 1
    with pytest.raises(UsageError, match="no_such"):
        bottega.optimize(model, x, submodule="no_such", **options)
    with pytest.raises(UsageError, match=r"example_inputs: no tensor .* Sequential is called with"):
        bottega.optimize(model, **options)
    with pytest.raises(UsageError, match="drifts"):
        bottega.optimize(model, x, drifts=1)


def test_importing_bottega_stays_light() -> None:
    script = "import bottega, sys; assert not {'torch', 'typer', 'pydantic', 'rich'} & set(sys.modules); bottega.__version__"
    subprocess.run([sys.executable, "-c", script], check=True)
