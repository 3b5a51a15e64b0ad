"""What torch.compile would run on a GPU, planned without one: Inductor lowers and fuses for a device that is only described, and is stopped before it
writes code. Made for the torch of `constraints.txt`, whose insides it reaches into.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=141 << 30, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32, L2_cache_size=60 << 20,
    shared_memory_per_block_optin=232448, shared_memory_per_block=49152, gcnArchName="", is_integrated=0,
)  # fmt: skip
DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True)
class Launch:
    bytes: int
    """Read and written, each buffer once."""
    what: str


class _PlannedError(Exception):
    def __init__(self, launches: list[Launch]) -> None:
        super().__init__("planned")
        self.launches = launches


def compiled_plan(make: Callable[[], tuple[nn.Module, tuple[Any, ...]]]) -> list[Launch]:
    """`make` builds a module and its inputs: on fake tensors, which take no memory, unless a module changes its type as it is built."""
    import torch._inductor.lowering
    from torch._inductor.decomposition import select_decomp_table

    with torch.no_grad():
        try:
            with FakeTensorMode():
                program = torch.export.export(*make(), strict=False)
        except RuntimeError:
            program = torch.export.export(*make(), strict=False)
        program = program.run_decompositions(select_decomp_table())
    graph, mode = program.graph_module, FakeTensorMode(allow_non_fake_inputs=True)
    given = [_moved(node.meta["val"], mode) for node in graph.graph.nodes if node.op == "placeholder"]
    for node in graph.graph.nodes:
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": DEVICE}
    graph.recompile()
    with _described_gpu(), mode, torch.no_grad():
        return _planned(graph, given, mode)


def _moved(value: Any, mode: FakeTensorMode) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return FakeTensor(mode, torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta"), DEVICE)


def _planned(graph: torch.fx.GraphModule, given: list[Any], mode: FakeTensorMode) -> list[Launch]:
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.scheduler import Scheduler
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*given)

    def stop(scheduler: Any) -> None:
        raise _PlannedError([each for node in scheduler.nodes if (each := _launch(node)) is not None])

    with tracing(TracingContext(mode)), mock.patch.object(Scheduler, "codegen", stop), config.patch({"fx_graph_cache": False}):
        try:
            compile_fx_inner(graph, given)
        except Exception as error:
            found: BaseException | None = error
            while found is not None and not isinstance(found, _PlannedError):
                found = found.__cause__ or found.__context__
            if found is None:
                raise
            return found.launches
    raise AssertionError("Inductor returned before it wrote code")


def _launch(node: Any) -> Launch | None:
    kind = type(node).__name__
    if "Nop" in kind:
        return None
    called = getattr(getattr(node, "node", None), "python_kernel_name", None)
    return Launch(int(node.get_read_write_buffers_sizes()), str(called or node.get_name()))


@contextlib.contextmanager
def _described_gpu() -> Iterator[None]:
    """All that Inductor asks of a device before it compiles for it."""
    from torch._dynamo.device_interface import CudaInterface

    answers: dict[str, Any] = {
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.device_count": lambda: 1,
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.get_device_properties": lambda device=None: H200,
        "torch.cuda.get_device_capability": lambda device=None: (H200.major, H200.minor),
        "torch.cuda.get_device_name": lambda device=None: H200.name,
        "torch.cuda.get_rng_state": lambda *device: torch.zeros(1),
        "torch.cuda.set_rng_state": lambda *state: None,
        "torch.cuda.synchronize": lambda *device: None,
        "torch.cuda._lazy_init": lambda: None,
        "torch.cuda._exchange_device": lambda index: 0,
        "torch.cuda._maybe_exchange_device": lambda index: 0,
        "torch._C._select_conv_backend": lambda *given, **options: torch._C._ConvBackend.Cudnn,  # type: ignore[attr-defined]
        "torch._C._conv_determine_backend_memory_format": lambda *given: torch.contiguous_format,
        "torch._dynamo.utils.preserve_rng_state": contextlib.nullcontext,
        "torch.version.cuda": "13.0",
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(name, answer))
        for name in ("get_device_properties", "current_device", "device_count"):
            answer = staticmethod(answers[f"torch.cuda.{name}"])
            stack.enter_context(mock.patch.object(CudaInterface, name, answer))
        yield
