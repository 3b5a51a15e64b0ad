"""A plan as a whole C++ candidate: one source with a function for each kernel, and the `forward` that calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bottega.compiler.allocate import allocation
from bottega.compiler.backends.cpp.attention import write_attention
from bottega.compiler.backends.cpp.columns import write_columns
from bottega.compiler.backends.cpp.convolution import write_convolution
from bottega.compiler.backends.cpp.function_writer import RESERVED_NAMES, FunctionWriter, folded
from bottega.compiler.backends.cpp.library_call import call_imports, call_line
from bottega.compiler.backends.cpp.map import indent, write_map
from bottega.compiler.backends.cpp.pool import write_pool
from bottega.compiler.backends.cpp.prelude import Prelude
from bottega.compiler.backends.cpp.product import write_product
from bottega.compiler.backends.cpp.row_space import row_space
from bottega.compiler.backends.cpp.rows import write_along
from bottega.compiler.backends.cpp.scan import write_scan
from bottega.compiler.kernel import Attention, Convolution, FunctionCall, Kernel, Map, Pool, Product, RowProgram, Scan, StoreOp
from bottega.compiler.library.cpp.functions import headers
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan
from bottega.compiler.steps import Refusal

LIBRARY = "library"


def write(plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """The candidate's whole source. Raises `Refusal` for a kernel that this language's writer does not know."""
    prelude = Prelude()
    known = list(plan.inputs)
    forward = [f"{name} = {text}" for name, text in plan.prepared]
    imports: set[str] = set()
    functions: list[str] = []
    names: set[str] = set()
    for kernel in plan.kernels:
        if isinstance(kernel, FunctionCall):
            forward.append(call_line(kernel))
            imports |= call_imports(kernel)
            known += [name for name in kernel.results if name]
            continue
        function = FunctionWriter(name_of(kernel, names), plan, prelude, passes)
        lines = _body(function, kernel)
        text = "\n".join([function.head(), *(indent(line, 1) for line in braced(lines)), "}"])
        functions.append(text)
        for store in outputs(kernel):
            if store.view.buffer not in known:
                forward.append(f"{store.view.buffer} = {allocation(plan.buffers[store.view.buffer], plan, known)}")
                known.append(store.view.buffer)
        forward.append(folded(f"{LIBRARY}.{function.name}(", function.arguments(), ")"))
    forward.append(f"return {plan.returns}")
    text = ""
    if functions:
        imports.add("from bottega.runtime import cpp")
        body = "\n\n".join(part for part in [prelude.text(), *functions] if part)
        includes = "\n".join(f"#include <{header}>" for header in headers(body))
        text = f'{LIBRARY} = cpp(r"""\n{includes}\n\n{body}\n""")'
    return frame.render(imports, text, forward)


def outputs(kernel: Any) -> list[StoreOp]:
    if isinstance(kernel, RowProgram):
        return [*kernel.row_stores, *kernel.element_stores]
    return list(kernel.stores)


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
}


def _body(function: FunctionWriter, kernel: Kernel) -> list[str]:
    writer = WRITERS.get(type(kernel))
    if writer is None:
        raise Refusal(f"{type(kernel).__name__.lower()} is not written in C++")
    return writer(function, kernel)


def name_of(kernel: Kernel, taken: set[str]) -> str:
    words: list[str] = []
    for operator in kernel.origin:
        word = re.sub(r"\W+", "_", operator).strip("_")
        if word and word not in words:
            words.append(word)
    stem = "_".join(words[:3]) or type(kernel).__name__.lower()
    name = stem
    if name in RESERVED_NAMES:
        name = f"{name}_kernel"
    base, number = name, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def braced(lines: list[str]) -> list[str]:
    """An opening brace goes to the end of the line before, except after a pragma."""
    result: list[str] = []
    for line in lines:
        if line.strip() == "{" and result and not result[-1].lstrip().startswith("#"):
            result[-1] += " {"
        else:
            result.append(line)
    return result
