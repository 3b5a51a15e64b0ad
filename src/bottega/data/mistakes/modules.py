"""Mistakes of the module around the kernel: imports, names, parameters, data types, layouts, what is returned and who does the work."""

from __future__ import annotations

import random
import re

from bottega.core.task import Task
from bottega.data.mistakes.mistake import anywhere, everywhere, forward, mistake, module, outside_strings


def _constructor(source: str) -> list[tuple[int, int]]:
    """The line of `ModelNew.__init__`."""
    named = re.search(r"class ModelNew\b", source)
    method = source.find("def __init__(", named.end()) if named else -1
    end = source.find(")", method) if method >= 0 else -1
    return [(named.start(), end + 1)] if named and end >= 0 else []


def _renamed_parameter(source: str, draw: random.Random) -> str | None:
    names = sorted(
        set(
            re.findall(
                r"self\.(\w+)\s*=\s*(?:nn\.|torch\.nn\.)?(?:Parameter|Linear|Conv\w+|LayerNorm|BatchNorm\w+|GroupNorm|Embedding)\(",
                source,
            )
        )
    )
    if not names:
        return None
    name = draw.choice(names)
    return re.sub(rf"\bself\.{name}\b", f"self.{name}_param", source)


MODULES = (
    mistake(
        "missing_import",
        everywhere,
        "Everything that is used is imported.",
        anywhere(
            r"^(?:import torch|import triton|import triton\.language as tl|import torch\.nn\.functional as F|from torch import nn"
            r"|import torch\.nn as nn|from bottega\.runtime import \w+)\n",
            "",
            outside_strings,
        ),
    ),
    mistake(
        "unknown_name",
        everywhere,
        "Every name in forward exists.",
        anywhere(r"(?<=[\[(, ])([a-z]\w*)\.(shape|numel|size|stride|dtype|device|contiguous)\b", r"inputs.\2", forward),
    ),
    mistake(
        "syntax_error",
        everywhere,
        "The file parses.",
        anywhere(r"(def \w+\([^()\n]*\)(?: -> [^:\n]*)?):$", r"\1", outside_strings),
        anywhere(r"\)$", "", forward),
    ),
    mistake(
        "parameter_not_registered",
        everywhere,
        "Parameters are registered as in the original.",
        anywhere(r"(?:torch\.)?nn\.Parameter\(((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*)\)", r"\1", module),
    ),
    mistake("parameter_renamed", everywhere, "Parameters have the original's names.", _renamed_parameter),
    mistake(
        "constructor_arguments",
        everywhere,
        "The constructor takes the original's arguments.",
        anywhere(r"(def __init__\(self), ?[^,)]+", r"\1", _constructor),
    ),
    mistake(
        "missing_contiguous",
        everywhere,
        "Inputs are made contiguous before their memory is read.",
        anywhere(r"\.contiguous\(\)", "", module, every=True),
    ),
    mistake(
        "wrong_output_type",
        everywhere,
        "The output has the original's data type.",
        anywhere(r"torch\.empty_like\((\w+)\)", r"torch.empty_like(\1, dtype=torch.float64)", forward),
        anywhere(r"dtype=\w+\.dtype", "dtype=torch.float16", forward),
        anywhere(r"torch\.empty\(([^()\n]*)\)", r"torch.empty(\1, dtype=torch.float64)", forward),
    ),
    mistake(
        "wrong_output_shape",
        everywhere,
        "The output has the original's shape.",
        anywhere(r"torch\.(empty|zeros)\((\([^()\n]*?)\)", r"torch.\1(\2, 1)", forward),
        anywhere(r"torch\.(empty|zeros)\((\w[\w.\[\]]*), ", r"torch.\1(1, \2, ", forward),
        anywhere(r"^(\s*)return (\w+)$", r"\1return \2.unsqueeze(0)", forward),
    ),
    mistake(
        "writes_into_its_input",
        everywhere,
        "The result goes into memory of its own.",
        anywhere(r"= torch\.empty_like\((\w+)\)", r"= \1", forward),
    ),
    mistake(
        "swapped_arguments",
        everywhere,
        "The kernel gets its arguments in the order in which it takes them.",
        anywhere(
            r"(\w+\.shape\[0\]|\brows\b|\bm\b), (\w+\.shape\[-?1\]|\bcolumns\b|\bcols\b|\bwidth\b|\bn\b)", r"\2, \1", forward
        ),
    ),
    mistake(
        "returns_nothing",
        everywhere,
        "Forward returns what the original returns.",
        anywhere(r"^(\s*)return [^\n]+$", r"\1pass", forward),
    ),
)


def torch_does_it(task: Task) -> str | None:
    """The original under the candidate's name: torch computes everything and no kernel is there."""
    changed = re.sub(r"\bModel\b", "ModelNew", task.source)
    return changed if "class ModelNew" in changed else None
