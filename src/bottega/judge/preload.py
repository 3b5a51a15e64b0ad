"""What the judge's fork server imports and prepares before it forks: torch, the worker's modules, and warm compilers.

Importing torch's compiler takes seconds in every process that was not forked with it. Nothing here initialises a device. An error here is
ignored: a process that needs the compiler meets it again.
"""

from __future__ import annotations

import contextlib
import importlib
import os

from bottega.languages.registry import warm_compilers

PRELOADED = ("numpy", "torch")
REQUIRED = ("torch",)
WORKER_MODULES = ("bottega.judge.worker", "bottega.judge.controller")
PREPARE = "bottega.judge.preload:prepare"
"""Called in the fork server after the imports."""

COMPILES = "BOTTEGA_COMPILES"
"""Set in the fork server's environment where baselines are compiled."""
TORCH_COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def prepare() -> None:
    gpu = os.path.exists("/dev/nvidiactl")
    if os.environ.get(COMPILES) and not gpu:  # with a GPU it asks for devices, and a fork could not use them any more
        load_torch_compiler()
    warm_compilers()


def load_torch_compiler() -> None:
    """Import it, and compute the hashes of torch and Triton once, which every compilation asks for."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking for a GPU must not initialise the driver here
    with contextlib.suppress(Exception):
        for name in TORCH_COMPILER:
            importlib.import_module(name)
        codecache = importlib.import_module("torch._inductor.codecache")
        codecache.torch_key()
        importlib.import_module("triton.runtime.cache").triton_key()
