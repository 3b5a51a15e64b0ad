"""How `forward` allocates a result, and where the sizes of its loops can be read."""

from __future__ import annotations

from bottega.compiler.plan import KernelPlan
from bottega.compiler.view import Buffer


def allocation(buffer: Buffer, plan: KernelPlan, known: list[str]) -> str:
    """Python text for an empty tensor like `buffer`, in terms of the variables in `known`."""
    tensors = [plan.buffers[name] for name in known if name in plan.buffers]
    sizes = ", ".join(buffer.axis_text(axis) for axis in range(len(buffer.shape)))
    sizes = f"({sizes},)" if len(buffer.shape) == 1 else f"({sizes})"
    owner = next((other for other in tensors if other.kind == "input"), None)
    like = next((other for other in tensors if other.kind == "input" and other.dtype == buffer.dtype), None)
    if like is not None:
        return f"torch.empty({sizes}, device={like.name}.device, dtype={like.name}.dtype)"
    where = f"{owner.name}.device" if owner is not None else "'cpu'"
    return f"torch.empty({sizes}, device={where}, dtype=torch.{buffer.dtype})"


def axis_text(buffer: Buffer, axis: int) -> str:
    """The size of a dimension, read off the tensor itself."""
    return f"{buffer.name}.shape[{axis}]" if buffer.kind in ("input", "result") else buffer.axis_text(axis)
