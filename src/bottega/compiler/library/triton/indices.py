"""Where an operand of another shape has its element, for kernels to call: shapes are copied from a task, where divisions must be worked out."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import triton
import triton.language as tl


@triton.jit
def index_in(operand: tl.constexpr, whole: tl.constexpr, offsets):
    """The index in a tensor of shape `operand`, broadcast to `whole`, of what belongs to the elements of `whole` at `offsets`."""
    found = offsets * 0
    inner, stride = 1, 1
    for back in tl.static_range(1, len(whole) + 1):
        if back <= len(operand):
            if operand[len(operand) - back] > 1:
                if back < len(whole):
                    found += offsets // inner % whole[len(whole) - back] * stride
                else:
                    found += offsets // inner * stride
            stride *= operand[len(operand) - back]
        inner *= whole[len(whole) - back]
    return found


@triton.jit
def index_in_part(whole: tl.constexpr, dim: tl.constexpr, start: tl.constexpr, part: tl.constexpr, offsets):
    """The index in a tensor of shape `whole` of the elements at `offsets` of its part from `start` on along `dim`, of shape `part`."""
    inner = offsets * 0 + 1  # as wide as they are
    for after in tl.static_range(dim + 1, len(part)):
        inner *= part[after]
    return offsets + offsets // (inner * part[dim]) * (inner * (whole[dim] - part[dim])) + start * inner
