from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rotates

HERE = Path(__file__).parent


@pytest.mark.parametrize("indices", ["usual", "large"])
def test_experts_are_two_kernels_of_ours_with_gather_and_gate_beside_torchs_products(indices: str) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("transformers")
    command = [sys.executable, str(HERE / "grouped_interpreted.py"), indices]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for kind, drafts in found.items():
        own = [(source, error) for technique, source, error in drafts if "own grouped" in technique]
        assert kind != "bfloat16" or (own and "own grouped" not in drafts[0][0] and "own grouped" in drafts[1][0])
        for source, error in own:
            assert error < 4, source
            assert "F.grouped_mm" not in source and source.count("GROUPS: tl.constexpr") == 2
            gathered, gated = "tl.load(x_ptr + k + ", "acc2 = tl.dot("
            assert source.count(gathered) == 1 and source.count(gated) == 1
    assert own
