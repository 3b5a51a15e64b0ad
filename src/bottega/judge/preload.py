"""What the judge's fork server imports and prepares before it forks: torch, Triton, the worker, and warm compilers.

The first Triton kernel of a process takes many times as long as the second: Triton hashes its own sources and builds a helper module. Nothing
here initialises a device, and only this file's kernel is compiled. An error here is ignored: a process that needs the compiler meets it again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile

PRELOADED = ("numpy", "torch", "triton", "triton.language", "bottega.judge.worker", "bottega.judge.controller")
REQUIRED = ("torch",)
PREPARE = "bottega.judge.preload:prepare"
"""Called in the fork server after the imports."""

COMPILES = "BOTTEGA_COMPILES"
"""Set in the fork server's environment where baselines are compiled. Importing torch's compiler takes seconds in every process that was not
forked with it."""
TORCH_COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def prepare() -> None:
    gpu = os.path.exists("/dev/nvidiactl")
    if os.environ.get(COMPILES) and not gpu:  # with a GPU it asks for devices, and a fork could not use them any more
        load_torch_compiler()
    if gpu and "triton" in sys.modules:
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


def warm_compilers() -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as folder, _cache_in(folder):
        _warm_triton()
    with contextlib.suppress(Exception):
        _warm_nvrtc()


@contextlib.contextmanager
def _cache_in(folder: str):  # type: ignore[no-untyped-def]
    """Have Triton cache its builds in `folder`."""
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
    def small_kernel(x, y, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = places < count
        values = tl.load(x + places, mask=inside, other=0.0)
        tl.store(y + places, values * tl.sum(values, axis=0), mask=inside)

    signature = {"x": "*fp32", "y": "*fp32", "count": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(small_kernel, signature, {(3,): 256}), target=GPUTarget("cuda", 90, 32))
    CudaUtils()
    CudaUtils.__init__ = _already_initialised  # every driver object would build the module again


def _already_initialised(self: object) -> None:
    """The class is a singleton, and its one object is complete."""


def _warm_nvrtc() -> None:
    from bottega.runtime.nvrtc import load_nvrtc
    from bottega.runtime.toolkit import nvrtc_path

    load_nvrtc(nvrtc_path())
