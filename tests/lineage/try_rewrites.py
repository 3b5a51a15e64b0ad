"""A program: every rewrite of every expert kernel of a language, run on small inputs against the task itself. One line of JSON for each.

A program of its own, because Triton decides at its import whether it interprets.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from bottega.lineage.rule import rules_of
from bottega.tasks.builtin import at_size, builtin_files

EXPERTS = Path(__file__).parents[2] / "examples" / "experts"
SMALL = {
    "rms_norm_rows": "tokens=6, width=40",
    "swiglu": "tokens=21, width=40, hidden=24",
    "smoothed_cross_entropy": "tokens=5, vocabulary=70",
    "causal_attention": "batch=1, heads=2, length=23, head_dim=16",
    "cumsum_over_time": "batch=2, steps=21, channels=24",
    "strided_conv2d": "batch_size=1, in_channels=2, out_channels=5, height=9, width=10",
    "linear_mish_residual": "batch_size=21, features=40",
    "router_weights": "tokens=20, width=40, experts=16",
    "group_norm_sequence": "batch_size=2, num_channels=16, length=21",
    "logsumexp_rows": "rows=5, cols=70",
    "per_head_projection": "tokens=6, heads=2, head_dim=8, out_dim=12",
    "gram_matrices": "batch=1, channels=18, pixels=21",
    "gated_scan": "batch=2, steps=5, channels=12",
    "transposed_matmul": "K=21, M=18, N=20",
    "low_rank_linear": "tokens=21, in_features=40, out_features=24, rank=16",
    "residual_rms_norm": "batch=2, tokens=3, width=40",
    "softmax_over_positions": "batch_size=2, positions=5, features=24",
    "masked_row_sum": "rows=5, cols=70",
    "policy_gradient_loss": "samples=6, actions=20",
    "peak_and_position": "batch=2, joints=3, pixels=70",
    "manhattan_distances": "queries=18, keys=20, dims=5",
    "weighted_bce_rows": "samples=5, labels=12",
}


def small_task(name: str) -> str:
    (path,) = builtin_files(name)
    return at_size(re.sub(r"dict\([^)]*\)", f"dict({SMALL[name]})", path.read_text(), count=1), "cpu")


def loaded(source: str, folder: Path, number: int) -> ModuleType:
    path = folder / f"module_{number}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bench:
    """A small task, and whether a candidate computes what it does."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder, self.count = folder, 0
        torch.manual_seed(0)
        self.task = loaded(small_task(name), folder, 0)
        self.model = self.task.Model(*self.task.get_init_inputs())
        self.inputs = self.task.get_inputs()
        with torch.no_grad():
            self.wanted = self.model(*self.inputs)

    def problem(self, source: str) -> str:
        self.count += 1
        try:
            made: Any = loaded(source, self.folder, self.count).ModelNew(*self.task.get_init_inputs())
            made.load_state_dict(self.model.state_dict())
            with torch.no_grad():
                torch.testing.assert_close(made(*self.inputs), self.wanted, rtol=2e-4, atol=2e-5)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"
        return ""


def main(language: str, names: list[str]) -> None:
    rules = rules_of(language)
    for path in sorted((EXPERTS / language).glob("*.py")) + sorted((EXPERTS / "plain" / language).glob("*.py")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            bench, source = Bench(path.stem, Path(folder)), path.read_text()

            def tell(**facts: object) -> None:
                print(json.dumps({"kernel": path.stem, "plain": path.parts[-3] == "plain", **facts}), flush=True)  # noqa: B023

            tell(step="as it is", feature="", problem=bench.problem(source))
            for rule in rules:
                feature = rule.technique.name
                for edit in rule.undo(source):
                    tell(step="undo", feature=feature, problem=bench.problem(edit.source))
                    again = next(rule.redo(edit.source, edit.value), None)
                    if again is not None:
                        found = any(rule.undo(again.source))
                        tell(step="redo", feature=feature, problem=bench.problem(again.source), found=found)
                if path.parts[-3] == "plain":
                    again = next(rule.redo(source, DEFAULTS.get(feature, "")), None)
                    if again is not None:
                        tell(step="redo", feature=feature, problem=bench.problem(again.source), found=True)


DEFAULTS = {
    "num_warps": "8", "num_stages": "3", "maxnreg": "128", "tile": "BLOCK_K=32", "cache_hints": "evict_first", "dot_precision": "tf32x3",
    "loop_stages": "3", "persistent": "4", "split": "SPLIT=2", "half_operands": "tl.float16", "schedule": "static", "unroll": "4",
}  # fmt: skip
"""What a card would bring to a plain kernel."""

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
