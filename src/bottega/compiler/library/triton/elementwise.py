"""Functions of one element, each a pass over memory: a line of a call graph that was not fused still runs as it stands."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bottega.compiler.library.triton.sweeps import sweepable
from bottega.compiler.library.triton.tiles import ALONE


@triton.jit
def elementwise_kernel(x_ptr, out_ptr, n, a, b, NAME: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    if NAME == "relu":
        y = tl.where(x < 0, 0.0, x)
    elif NAME == "leaky_relu":
        y = tl.where(x > 0, x, x * a)
    elif NAME == "elu":
        y = tl.where(x > 0, x, a * libdevice.expm1(x))
    elif NAME == "selu":
        y = 1.0507009873554805 * tl.where(x > 0, x, 1.6732632423543772 * libdevice.expm1(x))
    elif NAME == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif NAME == "gelu_tanh":
        y = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    elif NAME == "sigmoid":
        y = tl.sigmoid(x)
    elif NAME == "silu":
        y = x * tl.sigmoid(x)
    elif NAME == "tanh":
        y = libdevice.tanh(x)
    elif NAME == "softplus":
        y = tl.where(x * a > b, x, (tl.where(x * a < 0, 0.0, x * a) + libdevice.log1p(tl.exp(-tl.abs(x * a)))) / a)
    elif NAME == "mish":
        y = x * libdevice.tanh(tl.where(x > 20.0, x, tl.where(x < 0, 0.0, x) + libdevice.log1p(tl.exp(-tl.abs(x)))))
    elif NAME == "softsign":
        y = x / (tl.abs(x) + 1.0)
    elif NAME == "hardsigmoid":
        y = tl.where(x + 3.0 < 0, 0.0, tl.where(x + 3.0 > 6.0, 6.0, x + 3.0)) / 6.0
    elif NAME == "hardswish":
        y = x * tl.where(x + 3.0 < 0, 0.0, tl.where(x + 3.0 > 6.0, 6.0, x + 3.0)) / 6.0
    else:
        y = tl.where(x < a, a, tl.where(x > b, b, x))
    tl.store(out_ptr + i, y, mask=i < n)


def elementwise(name, input, a=0.0, b=0.0, inplace=False, own=None, block=1024, warps=4):
    """The function over every element, or None where it is left to torch."""
    if own is False or (inplace and not (ALONE and input.is_contiguous())) or not sweepable(input):
        return None
    x = input.contiguous()
    out, n = x if inplace else torch.empty_like(x), x.numel()
    elementwise_kernel[(triton.cdiv(n, block),)](x, out, n, float(a), float(b), NAME=name, BLOCK=block, num_warps=warps)
    return out


def relu(input, inplace=False, **choices):
    """torch.nn.functional.relu."""
    found = elementwise("relu", input, inplace=inplace, **choices)
    return torch.nn.functional.relu(input, inplace=inplace) if found is None else found


def leaky_relu(input, negative_slope=0.01, inplace=False, **choices):
    """torch.nn.functional.leaky_relu."""
    found = elementwise("leaky_relu", input, negative_slope, inplace=inplace, **choices)
    return torch.nn.functional.leaky_relu(input, negative_slope, inplace=inplace) if found is None else found


def elu(input, alpha=1.0, inplace=False, **choices):
    """torch.nn.functional.elu."""
    found = elementwise("elu", input, alpha, inplace=inplace, **choices)
    return torch.nn.functional.elu(input, alpha, inplace=inplace) if found is None else found


def selu(input, inplace=False, **choices):
    """torch.nn.functional.selu."""
    found = elementwise("selu", input, inplace=inplace, **choices)
    return torch.nn.functional.selu(input, inplace=inplace) if found is None else found


def silu(input, inplace=False, **choices):
    """torch.nn.functional.silu."""
    found = elementwise("silu", input, inplace=inplace, **choices)
    return torch.nn.functional.silu(input, inplace=inplace) if found is None else found


def mish(input, inplace=False, **choices):
    """torch.nn.functional.mish."""
    found = elementwise("mish", input, inplace=inplace, **choices)
    return torch.nn.functional.mish(input, inplace=inplace) if found is None else found


def softsign(input, **choices):
    """torch.nn.functional.softsign."""
    found = elementwise("softsign", input, **choices)
    return torch.nn.functional.softsign(input) if found is None else found


def hardsigmoid(input, inplace=False, **choices):
    """torch.nn.functional.hardsigmoid."""
    found = elementwise("hardsigmoid", input, inplace=inplace, **choices)
    return torch.nn.functional.hardsigmoid(input, inplace=inplace) if found is None else found


def hardswish(input, inplace=False, **choices):
    """torch.nn.functional.hardswish."""
    found = elementwise("hardswish", input, inplace=inplace, **choices)
    return torch.nn.functional.hardswish(input, inplace=inplace) if found is None else found


def sigmoid(input, **choices):
    """torch.sigmoid."""
    found = elementwise("sigmoid", input, **choices)
    return torch.sigmoid(input) if found is None else found


def tanh(input, **choices):
    """torch.tanh."""
    found = elementwise("tanh", input, **choices)
    return torch.tanh(input) if found is None else found


def softplus(input, beta=1.0, threshold=20.0, **choices):
    """torch.nn.functional.softplus."""
    found = elementwise("softplus", input, beta, threshold, **choices)
    return torch.nn.functional.softplus(input, beta, threshold) if found is None else found


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False, **choices):
    """torch.nn.functional.hardtanh."""
    found = elementwise("hardtanh", input, min_val, max_val, inplace=inplace, **choices)
    return torch.nn.functional.hardtanh(input, min_val, max_val, inplace=inplace) if found is None else found


def relu6(input, inplace=False, **choices):
    """torch.nn.functional.relu6."""
    found = elementwise("relu6", input, 0.0, 6.0, inplace=inplace, **choices)
    return torch.nn.functional.relu6(input, inplace=inplace) if found is None else found


def gelu(input, approximate="none", **choices):
    """torch.nn.functional.gelu."""
    found = (
        elementwise("gelu_tanh" if approximate == "tanh" else "gelu", input, **choices)
        if approximate in ("none", "tanh")
        else None
    )
    return torch.nn.functional.gelu(input, approximate=approximate) if found is None else found
