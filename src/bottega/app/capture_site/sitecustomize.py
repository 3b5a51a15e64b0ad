"""Python imports this before the program that `bottega capture` runs: it waits for torch to be imported, and has its calls recorded from then on."""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any


class _AfterTorch:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_record(module: Any) -> None:
            load(module)
            from bottega.tasks.capture_calls import start_from_environment

            start_from_environment()

        spec.loader.exec_module = load_and_record  # type: ignore[method-assign]
        return spec


def _own_sitecustomize() -> None:
    """The one that the program would have had."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("BOTTEGA_CAPTURE"):
    sys.meta_path.insert(0, _AfterTorch())
_own_sitecustomize()
