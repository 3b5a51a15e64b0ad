"""A plan as a whole CUDA candidate: kernels of one source, launched from `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.compiler.allocate import allocation
from bottega.compiler.backends.cpp.function_writer import FunctionWriter, folded
from bottega.compiler.backends.cpp.library_call import call_imports, call_line
from bottega.compiler.backends.cpp.map import indent
from bottega.compiler.backends.cpp.prelude import Prelude
from bottega.compiler.backends.cpp.write import braced, name_of, outputs
from bottega.compiler.backends.cuda.map import Launch, write_map
from bottega.compiler.backends.cuda.rows import write_rows
from bottega.compiler.backends.cuda.windows import write_pool, write_scan
from bottega.compiler.kernel import FunctionCall, Map, Pool, RowProgram, Scan
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan
from bottega.compiler.steps import Refusal

LIBRARY = "kernels"
WRITERS: dict[type, Callable[[FunctionWriter, Any], Launch]] = {
    Map: write_map,
    RowProgram: write_rows,
    Pool: write_pool,
    Scan: write_scan,
}


def write(plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """The candidate's whole source. Raises `Refusal` for a kernel that is not written in CUDA: products and convolutions."""
    prelude = Prelude(on_gpu=True)
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
        writer = WRITERS.get(type(kernel))
        if writer is None:
            raise Refusal(f"{type(kernel).__name__.lower()} is not written in CUDA")
        function = FunctionWriter(name_of(kernel, names), plan, prelude, passes, on_gpu=True)
        function.taken |= {"lane", "threadIdx", "blockIdx", "blockDim", "gridDim"}
        launch = writer(function, kernel)
        functions.append("\n".join([function.head(), *(indent(line, 1) for line in braced(launch.lines)), "}"]))
        for store in outputs(kernel):
            if store.view.buffer not in known:
                forward.append(f"{store.view.buffer} = {allocation(plan.buffers[store.view.buffer], plan, known)}")
                known.append(store.view.buffer)
        arguments = [launch.grid, launch.block, *function.arguments(), *([f"shared={launch.shared}"] if launch.shared else [])]
        forward.append(folded(f"{LIBRARY}.{function.name}(", arguments, ")"))
    forward.append(f"return {plan.returns}")
    text = ""
    if functions:
        imports.add("from bottega.runtime import cuda")
        body = "\n\n".join(part for part in [prelude.text(), *functions] if part)
        include = "#include <cuda_fp16.h>\n\n" if "__half" in body else ""
        text = f'{LIBRARY} = cuda(r"""\n{include}{body}\n""")'
    return frame.render(imports, text, forward)
