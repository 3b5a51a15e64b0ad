"""A finished result in the Kernel Hub's layout, loaded by the `kernels` package itself where it is installed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from episodes.marked_kernel import KERNEL, MARK, TASK, delivered_text, imported, inputs

from bottega.core.errors import UsageError
from bottega.episodes.delivery.kernel_hub import write_kernel_hub
from bottega.episodes.delivery.result import FILE, OPTIMIZED, VERDICT, Interval, Module, Result

SCRIPT = """
import sys, torch
from pathlib import Path
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, register_kernel_mapping, replace_kernel_forward_from_hub

task = {{}}
exec(Path({task!r}).read_text(), task)
Model, folder = task["Model"], Path({folder!r})
assert get_local_kernel(folder).layers.Model.__init__ is torch.nn.Module.__init__
model = torch.nn.Sequential(Model(16)).eval()
x = torch.randn(4, 16)
model.forward = lambda x: model[0](x, 2.0)
with torch.no_grad():
    expected = model(x)
    replace_kernel_forward_from_hub(Model, "Model")
    register_kernel_mapping({{"Model": {{"cpu": LocalLayerRepository(folder, layer_name="Model")}}}})
    fast = kernelize(model, mode=Mode.INFERENCE, device="cpu")
    torch.testing.assert_close(fast(x), expected + {mark}, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fast[0](torch.ones(3, 16), 2.0), Model.forward(fast[0], torch.ones(3, 16), 2.0))
"""


def finished(folder: Path, outcome: str = "faster", function: str | None = None) -> Path:
    folder.mkdir()
    claim = {"eager": Interval(point=2.0, low=1.9, high=2.1)} if outcome == "faster" else {}
    result = Result(
        outcome=outcome, module=Module(name="model", function=function), task_id="0123456789abcdef", device="cpu", language="cpp", precision="fp32",
        baselines=["eager"], claim=claim, fingerprint={"cpu": "a test"},
    )  # fmt: skip
    (folder / FILE).write_text(result.sealed().text())
    (folder / OPTIMIZED).write_text(delivered_text(KERNEL, TASK))
    (folder / VERDICT).write_text("{}\n")
    return folder


def test_the_layout_and_the_card(tmp_path: Path) -> None:
    out = write_kernel_hub(finished(tmp_path / "run"), tmp_path / "hub", "me/fast-model")
    assert 'repo-id = "me/fast-model"' in (out / "build.toml").read_text()
    assert "| eager | 2.00× | 1.90 to 2.10 |" in (out / "CARD.md").read_text()
    assert 'LocalLayerRepository(Path("hub"), layer_name=' in (out / "CARD.md").read_text()
    assert json.loads((out / "build" / "torch-cpu" / "metadata.json").read_text())["backend"] == {"type": "cpu"}
    (layers,) = (out / "torch-ext").glob("*/layers.py")
    assert "def forward(self, x, scale):" in layers.read_text()
    with pytest.raises(UsageError, match="not empty"):
        write_kernel_hub(tmp_path / "run", out)
    with pytest.raises(UsageError, match="found nothing that is surely faster"):
        write_kernel_hub(finished(tmp_path / "none", "none"), tmp_path / "other")
    with pytest.raises(UsageError, match=r"focal_loss is a function; share optimized\.py"):
        write_kernel_hub(finished(tmp_path / "function", function="focal_loss"), tmp_path / "other")


@torch.no_grad()
def test_a_layer_follows_the_module_that_it_is_bound_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write_kernel_hub(finished(tmp_path / "run"), tmp_path / "hub")
    (package,) = (out / "torch-ext").iterdir()
    monkeypatch.syspath_prepend(str(package.parent))
    layer = importlib.import_module(f"{package.name}.layers").Model
    module = imported(TASK, "hub_task").Model(16)
    module.forward = types.MethodType(layer.forward, module)
    for _ in range(2):
        module(*inputs())
    module.eps = 0.5
    module(*inputs())
    fast = module.__dict__["_bottega"]
    assert fast.calls == 2 and dict(fast.fallbacks) == {"eps was changed after the module was loaded": 1}


def test_the_kernels_package_loads_it_and_puts_it_in(tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    out = write_kernel_hub(finished(tmp_path / "run"), tmp_path / "hub")
    (tmp_path / "task.py").write_text(TASK)
    script = SCRIPT.format(task=str(tmp_path / "task.py"), folder=str(out), mark=MARK)
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
