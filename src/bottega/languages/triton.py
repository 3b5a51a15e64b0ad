"""Triton: kernels are Python functions that are compiled at their first launch; on a CPU its interpreter runs them."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from bottega.languages.kernel_text import decorated, pairs
from bottega.languages.language import Around, Language

DECORATORS = ("jit", "triton.jit", "triton.autotune", "triton.heuristics")
_MARKS = frozenset((("@", "jit"), ("@", "triton.jit"), ("@", "triton.autotune"), ("import", "triton"), ("from", "triton")))
_WORDS = re.compile(r"triton|\btl\.", re.IGNORECASE)

RULES = r"""
Plain Triton: `@triton.jit` kernels in the file, launched from forward on the current stream.

- Inputs are CUDA tensors. Mask every load and store whose block may reach past the end; block sizes are powers of two.
- `tl.dot` uses tf32 for fp32 operands unless `input_precision="ieee"` is given.
- Offsets beyond 2^31 elements need `tl.int64`.
- `triton.autotune` is allowed; its trials run before timing and count against the time limit, so keep the list short.
- Give kernels names of their own: the share of the work that they do is measured by name.
""".strip()

EXAMPLE = r"""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_gain(x, gain, y, columns, BLOCK: tl.constexpr):
    here = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = here < columns
    offsets = tl.program_id(0).to(tl.int64) * columns + here
    v = tl.load(x + offsets, mask=inside, other=0.0)
    g = tl.load(gain + here, mask=inside, other=0.0)
    tl.store(y + offsets, tl.where(v < 0.0, 0.0, v) * g, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        relu_gain[(rows, triton.cdiv(columns, 1024))](x, self.gain, y, columns, BLOCK=1024)
        return y
""".lstrip()


class Triton(Language):
    name = "triton"
    title = "Triton"
    aliases = ("python",)
    precedence = 20
    index_bit = 16
    devices = ("cuda",)
    interpreted = ("cpu",)
    is_default = True
    decorators = DECORATORS
    needs = "triton"
    card_prefix = "triton_"
    modules = ("triton", "triton.language")
    variables = ("TRITON_",)
    rules = RULES
    example = EXAMPLE
    compiler = "bottega.compiler.backends.triton:BACKEND"
    rewrites = "bottega.lineage.triton:RULES"
    kernel_library = True

    def recognises(self, source: str) -> bool:
        return ("triton" in source or "jit" in source) and any(pair in _MARKS for pair in pairs(source))

    def recognises_snippet(self, text: str) -> bool:
        return _WORDS.search(text) is not None

    def kernel_names(self, source: str) -> Iterator[str]:
        return decorated(source, self.decorators) if "jit" in source else iter(())

    def hints(self, problem: str, source: str) -> Iterator[str]:
        if "tail" in problem and "mask" not in source:
            yield f"No mask is used in the {self.title} loads and stores."

    def warm(self) -> None:
        """Its first kernel in a process takes many times as long as its second: it reads all of Triton to know its version, and builds a
        module of its own."""
        if os.environ.get("TRITON_INTERPRET") == "1":
            spread_truth_values_as_such()
            return
        with tempfile.TemporaryDirectory() as folder, _cache_in(folder):
            compile_one_kernel()

    def watch_compiler(self, around: Around) -> None:
        """The launcher of a kernel, which takes as long to build, is built with it."""
        try:
            from triton import compiler
        except ImportError:
            return
        compile_kernel = compiler.compile

        def compile_inside(*arguments: Any, **options: Any) -> Any:
            with around():
                kernel = compile_kernel(*arguments, **options)
                with contextlib.suppress(Exception):  # whoever launches it meets the same
                    kernel._init_handles()
            return kernel

        compiler.compile = compile_inside


def spread_truth_values_as_such() -> None:
    """The interpreter of Triton 3.9 gives a comparison the type of its operands: spread over a block, one of scalars comes out as integers, and
    `mask & (row < rows)`, which compiles, is refused as a mask."""
    from triton.runtime import interpreter

    create_splat = interpreter.InterpreterBuilder.create_splat

    def create(self: Any, ret_ty: Any, arg: Any) -> Any:
        spread = create_splat(self, ret_ty, arg)
        return interpreter.TensorHandle(spread.data.astype(bool), ret_ty.scalar) if ret_ty.scalar.is_int1() else spread

    interpreter.InterpreterBuilder.create_splat = create


@contextlib.contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_CACHE_DIR"]
        else:
            os.environ["TRITON_CACHE_DIR"] = before


def compile_one_kernel() -> None:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaUtils
    from triton.compiler import ASTSource

    @triton.jit  # type: ignore[untyped-decorator]
    def times_its_sum(x, y, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = places < count
        values = tl.load(x + places, mask=inside, other=0.0)
        tl.store(y + places, values * tl.sum(values, axis=0), mask=inside)

    signature = {"x": "*fp32", "y": "*fp32", "count": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(times_its_sum, signature, {(3,): 256}), target=GPUTarget("cuda", 90, 32))
    CudaUtils()
    CudaUtils.__init__ = _done_already  # every driver object would build the module again, for one that is there


def _done_already(self: object) -> None:
    """The one object of this class has all it needs."""
