"""Transposed convolutions in fp32: plain ones over turned weights whose channels are the outputs of one stride."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch

from bottega.agents.shelf.triton.convolution import conv_option, conv_product
from bottega.agents.shelf.triton.tiles import kernel_ready


def transposed_by_kernel(dims, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """A transposed convolution by a kernel of ours, or None where it is the library's."""
    fits = input.dim() == weight.dim() == dims + 2 and input.shape[1] == weight.shape[0] and groups == 1
    fits = fits and (bias is None or (bias.shape == weight.shape[1:2] and bias.is_contiguous()))
    if not fits or min(weight.shape[:2]) < 16 or not kernel_ready(input, weight, bias):
        return None
    s, d = conv_option(stride, dims, 1), conv_option(dilation, dims, 1)
    pad, extra = conv_option(padding, dims, 0), conv_option(output_padding, dims, 0)
    (N, C, *planes), (_, OC, *taps) = input.shape, weight.shape
    planes, taps = [1] * (3 - dims) + planes, [1] * (3 - dims) + taps
    size = [(i - 1) * v - 2 * p + e * (k - 1) + o + 1 for i, v, p, e, k, o in zip(planes, s, pad, d, taps, extra)]
    spread = any(e > 1 and v > 1 for e, v in zip(d, s)) or any(o >= max(v, e) for o, v, e in zip(extra, s, d))
    if min(size) < 1 or spread or N * OC * size[0] * size[1] * size[2] >= 2**31:
        return None
    # Output q * stride + phase takes the taps that lie a stride apart, last first.
    before, after = [-p % v for p, v in zip(pad, s)], [(p - k) % v for p, k, v in zip(pad, taps, s)]
    edges = [edge for pair in zip(before[::-1], after[::-1]) for edge in pair]
    weight = torch.nn.functional.pad(weight.reshape(C, OC, *taps), edges)
    t = [k // v for k, v in zip(weight.shape[2:], s)]
    weight = weight.reshape(C, OC, t[0], s[0], t[1], s[1], t[2], s[2]).flip(2, 4, 6)
    packed = weight.permute(2, 4, 6, 1, 3, 5, 7, 0).reshape(t[0] * t[1] * t[2], -1, C).contiguous()
    start = [e * (k - 1) - (p + v - 1) // v for e, k, p, v in zip(d, t, pad, s)]
    out = conv_product(input.reshape(N, C, *planes), packed, bias, size, t, (1, 1, 1), start, d, s)
    return out.reshape(N, OC, *size[3 - dims :])


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose1d."""
    out = transposed_by_kernel(1, input, weight, bias, stride, padding, output_padding, groups, dilation)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose1d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose2d."""
    out = transposed_by_kernel(2, input, weight, bias, stride, padding, output_padding, groups, dilation)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose2d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose3d."""
    out = transposed_by_kernel(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose3d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )
