"""Runs drafts in Triton of the modules in `value_tasks` by Triton's interpreter, and prints which differ from torch. Started as a process of its
own, with TRITON_INTERPRET=1 and LIMITS (`wide` or `tight`: small rows count as long ones)."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings

import numpy as np
import torch
from triton_interpreted import loaded, stand_in, tighten
from value_tasks import VALUES

from bottega.compiler.step_compiler import StepCompiler
from bottega.core.task import Task


def differing(name: str, folder: str) -> list[str]:
    namespace: dict = {"__name__": "task"}
    exec(compile(VALUES[name], name, "exec"), namespace)
    torch.manual_seed(0)
    model, inputs = namespace["Model"](), namespace["get_inputs"]()
    found = []
    for number, step in enumerate(StepCompiler().build(Task(VALUES[name], name), "triton").steps):
        if "CUDAGraph" in step.candidate.source:
            continue
        new = loaded(step.candidate.source, folder, number).ModelNew()
        new.load_state_dict(model.state_dict())
        try:
            with torch.no_grad():
                torch.testing.assert_close(new(*inputs), model(*inputs), rtol=2e-5, atol=2e-5, equal_nan=True)
        except Exception as error:
            found.append(f"{name} by {step.technique}: {error}")
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    stand_in()
    if sys.argv[1] == "tight":
        tighten()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([text for name in VALUES for text in differing(name, folder)]))
