"""torch's compiler, made ready once in the fork server where baselines are compiled: to import it takes seconds in every process."""

from __future__ import annotations

import contextlib
import importlib
import os

COMPILES = "BOTTEGA_COMPILES"
"""Set in the fork server's environment where baselines are compiled."""
TORCH_COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def load_torch_compiler() -> None:
    """Import it, and have it read all of torch and of Triton once to know their versions: every compilation asks for these."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whoever asks for a GPU must not wake the driver here
    with contextlib.suppress(Exception):
        for name in TORCH_COMPILER:
            importlib.import_module(name)
        codecache = importlib.import_module("torch._inductor.codecache")
        codecache.torch_key()
        importlib.import_module("triton.runtime.cache").triton_key()
