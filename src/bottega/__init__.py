"""Bottega makes PyTorch modules faster: it writes kernels, checks them against an fp64 oracle, and measures them.

`bottega.optimize(model, example_inputs)` and `bottega.capture()` are imported when they are first used: `import bottega` stays light.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_LAZY = {"optimize": "bottega.app.optimize_python", "capture": "bottega.tasks.capture_calls"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bottega' has no attribute {name!r}")
