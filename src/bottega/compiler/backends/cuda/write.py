"""The CUDA backend: a plan as kernels of one CUDA source, launched from `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.module import NativeLanguage, WrittenFunction, write_module
from bottega.compiler.backends.cuda.map import Launch, write_map
from bottega.compiler.backends.cuda.rows import write_rows
from bottega.compiler.backends.cuda.windows import write_pool, write_scan
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import Kernel, Map, Pool, RowProgram, Scan
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan

WRITERS: dict[type, Callable[[FunctionWriter, Any], Launch]] = {
    Map: write_map,
    RowProgram: write_rows,
    Pool: write_pool,
    Scan: write_scan,
}


def write(plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """Returns the candidate's whole source. Raises `Refusal` for a kernel that is not written in CUDA: products and convolutions."""
    return write_module(CUDA, plan, frame, passes)


def _write(function: FunctionWriter, kernel: Kernel) -> WrittenFunction:
    writer = WRITERS.get(type(kernel))
    if writer is None:
        raise Refusal(f"{type(kernel).__name__} is not written in CUDA")
    function.taken |= {"lane", "threadIdx", "blockIdx", "blockDim", "gridDim"}
    launch = writer(function, kernel)
    return WrittenFunction(launch.lines, (launch.grid, launch.block), (f"shared={launch.shared}",) if launch.shared else ())


def _includes(body: str) -> str:
    return "#include <cuda_fp16.h>\n\n" if "__half" in body else ""


CUDA = NativeLanguage("cuda", "kernels", _write, _includes, on_gpu=True)
