"""The C++ backend: a plan as one C++ source with a function for each kernel, and the `forward` that calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.compiler.backends.cpp.attention import write_attention
from bottega.compiler.backends.cpp.columns import write_columns
from bottega.compiler.backends.cpp.convolution import write_convolution
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.map import write_map
from bottega.compiler.backends.cpp.matmul import write_product
from bottega.compiler.backends.cpp.module import NativeLanguage, WrittenFunction, write_module
from bottega.compiler.backends.cpp.pool import write_pool
from bottega.compiler.backends.cpp.recurrence import write_recurrence
from bottega.compiler.backends.cpp.row_space import row_space
from bottega.compiler.backends.cpp.rows import write_along
from bottega.compiler.backends.cpp.scan import write_scan
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import Attention, Convolution, Kernel, Map, Pool, Product, Recurrence, RowProgram, Scan
from bottega.compiler.library.cpp.functions import headers
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan


def write(plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """Returns the candidate's whole source. Raises `Refusal` for a kernel that has no writer here."""
    return write_module(CPP, plan, frame, passes)


def _write_rows(function: FunctionWriter, kernel: RowProgram) -> list[str]:
    space = row_space(function, kernel)
    return write_columns(space) or write_along(space)


WRITERS: dict[type, Callable[[FunctionWriter, Any], list[str]]] = {
    Map: write_map,
    RowProgram: _write_rows,
    Product: write_product,
    Convolution: write_convolution,
    Pool: write_pool,
    Scan: write_scan,
    Attention: write_attention,
    Recurrence: write_recurrence,
}


def _write(function: FunctionWriter, kernel: Kernel) -> WrittenFunction:
    writer = WRITERS.get(type(kernel))
    if writer is None:
        raise Refusal(f"{type(kernel).__name__} is not written in C++")
    return WrittenFunction(writer(function, kernel))


def _includes(body: str) -> str:
    return "\n".join(f"#include <{header}>" for header in headers(body)) + "\n\n"


CPP = NativeLanguage("cpp", "library", _write, _includes)
