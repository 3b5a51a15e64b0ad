"""The tasks and candidates that the benchmarks judge: twins of built-in tasks, and honest kernels in three languages.

The kernels are plain candidate files below `candidates/`, so that each can also be given to `bottega judge`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.languages import candidate_from
from bottega.tasks.load import load_task

KERNEL_TASKS = ("star_relu", "rms_norm_rows", "residual_rms_norm")
"""Built-in tasks that have a kernel in every language."""
TWIN_TASKS = ("star_relu", "logsumexp_rows", "masked_scaled_softmax", "swiglu", "small_cnn")
"""Bound by memory, by a reduction, by several passes, by matrix multiplication, and by many small operators."""
LANGUAGES = {"cpu": ("cpp",), "cuda": ("triton", "cuda")}

_FOLDER = Path(__file__).parent / "candidates"
_MARK = "variation 0"


def builtin(name: str, size: str) -> Task:
    """`size`: `cpu`, `gpu`, or a device, whose size it is."""
    return load_task(f"builtin:{name}", size="cpu" if size == "cpu" else "gpu")


def twin(task: Task) -> Candidate:
    """The task's own model under the candidate's name: equally fast by construction."""
    return candidate_from(re.sub(r"\bModel\b", "ModelNew", task.source), name=f"{task.name} twin")


def kernel(name: str, language: str, variation: int) -> Candidate:
    """An honest kernel whose text is like no other's, so that nothing that was built before can serve it."""
    source = (_FOLDER / language / f"{name}.py").read_text(encoding="utf-8")
    if _MARK not in source:
        raise ValueError(f"candidates/{language}/{name}.py lacks the line {_MARK!r}, which makes each copy distinct")
    candidate = candidate_from(source.replace(_MARK, f"variation {variation}"), name=f"{name} {language} {variation}")
    return replace(candidate, language=language)  # type: ignore[arg-type]
