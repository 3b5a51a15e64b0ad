"""Runs drafts of a mixture of experts by Triton's interpreter, against the module in fp64. Started as a process of its own:

TRITON_INTERPRET=1 python grouped_interpreted.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from typing import Any

import torch
from triton_interpreted import distance, loaded, stand_in

from bottega.compiler.backends.triton import width
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.task import Task

SOURCE = """import torch
import torch.nn as nn
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        config = MixtralConfig(hidden_size=24, intermediate_size=40, num_local_experts=5, num_experts_per_tok=2)
        self.block = MixtralSparseMoeBlock(config).to(KIND).eval()
        torch.manual_seed(2)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.3)
        nn.init.constant_(self.block.gate.weight[3], 0)  # it is taken by few rows, if any

    def forward(self, x):
        return self.block(x)


def get_inputs():
    return [torch.randn(3, 7, 24, dtype=KIND)]


def get_init_inputs():
    return []
"""


def check(kind: str, folder: str) -> list[tuple[str, str, float]]:
    """Of each draft: its technique, its source, and its error over the module's own; of those with torch's products, no error."""
    source = SOURCE.replace("KIND", f"torch.{kind}")
    namespace: dict[str, Any] = {"__name__": "task"}
    exec(compile(source, kind, "exec"), namespace)
    torch.manual_seed(0)
    inputs, model = namespace["get_inputs"](), namespace["Model"]()
    wanted = namespace["Model"]().double()(*(value.double() for value in inputs))
    own = max(distance(model(*inputs), wanted), torch.finfo(inputs[0].dtype).eps)
    found = []
    for number, step in enumerate(DraftCompiler(8).build(Task(source, "experts"), "triton").steps):
        if "CUDAGraph" in step.candidate.source:
            continue
        if "own grouped" not in step.technique:
            found.append((step.technique, step.candidate.source, 0.0))
        else:
            new = loaded(step.candidate.source, folder, f"{kind}_{number}").ModelNew()  # type: ignore[arg-type]
            new.load_state_dict(model.state_dict())
            found.append((step.technique, step.candidate.source, distance(new(*inputs), wanted) / own))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    stand_in()
    if sys.argv[1:] == ["large"]:
        width.BEYOND = width.INT32  # every tensor counts as one of more than 2^31 elements
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        print(json.dumps({kind: check(kind, place) for kind in ("bfloat16", "float32")}))
