"""Tensors of more elements than 32 bits count: their kernels index with 64 bits, all others with 32, which take fewer registers."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import triton
import triton.language as tl

INDEX_LIMIT = 2**31 - 2**24
"""Below it, what the last block masks out and the step behind the last chunk fit 32 bits too."""


@triton.jit
def index_program(AXIS: tl.constexpr, LARGE: tl.constexpr):
    return tl.program_id(AXIS).to(tl.int64) if LARGE else tl.program_id(AXIS)


@triton.jit
def index_lanes(COUNT: tl.constexpr, LARGE: tl.constexpr):
    return tl.arange(0, COUNT).to(tl.int64) if LARGE else tl.arange(0, COUNT)


def index_is_large(*tensors):
    """Whether an offset into one of these tensors, over its strides, passes 32 bits."""
    return any(
        tensor is not None and sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) >= INDEX_LIMIT
        for tensor in tensors
    )
