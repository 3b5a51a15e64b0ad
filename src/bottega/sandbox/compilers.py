"""Compilers that every candidate for a GPU needs, made ready once in the fork server: Triton's first kernel in a process takes
many times as long as its second, for it reads all of Triton to know its version, and builds a module of its own.

Nothing here initialises a device, and only this file's kernel is compiled. What fails is left to the candidate's process, which
meets it again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile

COMPILES = "BOTTEGA_COMPILES"
"""Set in the fork server's environment where baselines are compiled. To import torch's compiler takes seconds, in every process that
was not forked with it."""
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


def warm_compilers() -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as folder, _cache_in(folder):
        _warm_triton()
    with contextlib.suppress(Exception):
        _warm_nvrtc()


@contextlib.contextmanager
def _cache_in(folder: str):  # type: ignore[no-untyped-def]
    """Triton keeps what it builds here, for as long as it is being loaded."""
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_CACHE_DIR"]
        else:
            os.environ["TRITON_CACHE_DIR"] = before


def _warm_triton() -> None:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaUtils
    from triton.compiler import ASTSource

    @triton.jit  # type: ignore[untyped-decorator]
    def nothing_much(x, y, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = places < count
        values = tl.load(x + places, mask=inside, other=0.0)
        tl.store(y + places, values * tl.sum(values, axis=0), mask=inside)

    signature = {"x": "*fp32", "y": "*fp32", "count": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(nothing_much, signature, {(3,): 256}), target=GPUTarget("cuda", 90, 32))
    CudaUtils()
    CudaUtils.__init__ = _done_already  # every driver object would build the module again, for one that is there


def _done_already(self: object) -> None:
    """The one object of this class has all it needs."""


def _warm_nvrtc() -> None:
    from bottega.runtime.nvrtc import load_nvrtc
    from bottega.runtime.toolkit import nvrtc_path

    load_nvrtc(nvrtc_path())
