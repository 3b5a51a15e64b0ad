"""`bottega lineage` with the real judge: an expert kernel in, cards, tree and report out; and what it says of wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bottega.app.cli import app
from bottega.core.errors import UsageError

KERNEL = '''import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

extern "C" void relu(const float* __restrict__ x, float* __restrict__ y, int64_t count) {
  #pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.f ? 0.f : x[i];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        return y
'''
FIXTURES = Path(__file__).parents[1] / "fixtures" / "tasks"


@pytest.mark.rotates
def test_an_expert_kernel_becomes_cards_and_a_report(tmp_path: Path) -> None:
    kernel, out = tmp_path / "fast_relu.py", tmp_path / "run"
    kernel.write_text(KERNEL)
    words = ["lineage", "mine", str(kernel), "--task", str(FIXTURES / "relu.py"), "--out", str(out), "pairs=1"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    cards = [json.loads(line) for line in (out / "cards.jsonl").read_text().splitlines()]
    assert {"fast_relu_threads", "fast_relu_restrict"} <= {card["name"] for card in cards} | {"fast_relu_schedule"}
    assert "#pragma" not in (out / "plain.py").read_text()
    assert "__restrict__" not in (out / "plain.py").read_text()
    assert "without threads" in done.output
    assert "<h2>The lineage</h2>" in (out / "report.html").read_text()
    shown = CliRunner().invoke(app, ["lineage", "show", str(out)], catch_exceptions=False)
    assert "fast_relu: the expert kernel" in shown.output
    before = (out / "lineage.jsonl").read_text()
    again = CliRunner().invoke(app, words, catch_exceptions=False)
    assert again.exit_code == 0
    assert (out / "lineage.jsonl").read_text() == before, "nothing is judged twice"


def test_wrong_usage_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text(
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    )
    words = ["lineage", "mine", str(plain), "--task", str(FIXTURES / "relu.py"), "--out", str(tmp_path / "run")]
    with pytest.raises(UsageError, match="--backbone"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    with pytest.raises(UsageError, match="holds no lineage"):
        CliRunner().invoke(app, ["lineage", "show", str(tmp_path)], catch_exceptions=False)
