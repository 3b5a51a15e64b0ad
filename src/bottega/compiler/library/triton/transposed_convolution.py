"""Transposed convolutions in fp32: plain ones over turned weights whose channels are the outputs of one stride.

Where a stride and a dilation share a factor, only outputs that far apart have taps: these are computed, and set among the others.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import math

import torch

from bottega.compiler.library.triton.convolution import conv_option, conv_product
from bottega.compiler.library.triton.tiles import ALONE, kernel_ready, library_is_best


def transposed_product(x, weight, bias, size, s, pad, d, groups, **choices):
    """x (N, C, D, H, W) by weights (C, channels of a group, *taps), where no stride is dilated."""
    (_, width, *taps), share = weight.shape, weight.shape[0] // groups
    # Output q * stride + phase, counted before the padding is cut off, takes the taps that lie a stride apart, last first.
    edges = [edge for k, v in zip(taps[::-1], s[::-1]) for edge in (0, -k % v)]
    weight = torch.nn.functional.pad(weight, edges)
    t = [k // v for k, v in zip(weight.shape[2:], s)]
    weight = weight.reshape(groups, share, width, t[0], s[0], t[1], s[1], t[2], s[2]).flip(3, 5, 7)
    weight = weight.permute(0, 2, 4, 6, 8, 1, 3, 5, 7).reshape(-1, share, *t)
    start, rest = [e * (k - 1) - p // v for e, k, p, v in zip(d, t, pad, s)], [p % v for p, v in zip(pad, s)]
    return conv_product(x, weight, bias, size, t, (1, 1, 1), start, d, s, groups, rest, **choices)


def transposed_by_kernel(dims, input, weight, bias, stride, padding, output_padding, groups, dilation, own=None, **choices):
    """A transposed convolution by a kernel of ours, or None where it is the library's."""
    if input.dim() == dims + 1:
        options = stride, padding, output_padding, groups, dilation
        out = transposed_by_kernel(dims, input.unsqueeze(0), weight, bias, *options, own, **choices)
        return None if out is None else out[0]
    fits = input.dim() == weight.dim() == dims + 2 and input.shape[1] == weight.shape[0] and weight.shape[0] % groups == 0
    fits = fits and (bias is None or (bias.numel() == weight.shape[1] * groups and bias.dim() == 1 and bias.is_contiguous()))
    if own is False or not fits or not kernel_ready(input, weight, bias) or (library_is_best(input) and not own):
        return None
    least, need = min(weight.shape[0] // groups, weight.shape[1]), 16 if groups == 1 else 8
    if least < need and not (own or ALONE):
        return None
    s, d = conv_option(stride, dims, 1), conv_option(dilation, dims, 1)
    pad, extra = conv_option(padding, dims, 0), conv_option(output_padding, dims, 0)
    (N, C, *planes), (_, width, *taps), OC = input.shape, weight.shape, weight.shape[1] * groups
    planes, taps = [1] * (3 - dims) + planes, [1] * (3 - dims) + taps
    size = [(i - 1) * v - 2 * p + e * (k - 1) + o + 1 for i, v, p, e, k, o in zip(planes, s, pad, d, taps, extra)]
    wrong = any(o >= max(v, e) for o, v, e in zip(extra, s, d))
    if min(size) < 1 or wrong:
        return None
    x, weight = input.reshape(N, C, *planes), weight.reshape(C, width, *taps)
    shared = [math.gcd(v, e) for v, e in zip(s, d)]
    first = [-p % g for p, g in zip(pad, shared)]
    places = [(f - 1 - o) // g + 1 for f, o, g in zip(size, first, shared)]
    s, d = ([v // g for v, g in zip(values, shared)] for values in (s, d))
    pad = [(p + g - 1) // g for p, g in zip(pad, shared)]
    gaps = [e if v > 1 else 1 for v, e in zip(s, d)]  # what is left of a dilation under a stride are taps of zero
    if max(gaps) > 1 and not (own or ALONE):
        return None
    if max(gaps) > 1:
        sparse = weight.new_zeros(C, width, *((k - 1) * e + 1 for k, e in zip(taps, gaps)))
        sparse[:, :, :: gaps[0], :: gaps[1], :: gaps[2]] = weight
        weight, d = sparse, [e // gap for e, gap in zip(d, gaps)]
    if max(shared) == 1:
        out = transposed_product(x, weight, bias, size, s, pad, d, groups, **choices)
    else:
        fill = x.new_zeros(1) if bias is None else bias
        out = fill.view(-1, 1, 1, 1).expand(N, OC, *size).clone(memory_format=torch.contiguous_format)
        if min(places) > 0:
            spots = [slice(o, None, g) for o, g in zip(first, shared)]
            part = transposed_product(x, weight, bias, places, s, pad, d, groups, **choices)
            out[:, :, spots[0], spots[1], spots[2]] = part
    return out.reshape(N, OC, *size[3 - dims :])


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, **choices):
    """torch.nn.functional.conv_transpose1d."""
    out = transposed_by_kernel(1, input, weight, bias, stride, padding, output_padding, groups, dilation, **choices)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose1d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, **choices):
    """torch.nn.functional.conv_transpose2d."""
    out = transposed_by_kernel(2, input, weight, bias, stride, padding, output_padding, groups, dilation, **choices)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose2d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, **choices):
    """torch.nn.functional.conv_transpose3d."""
    out = transposed_by_kernel(3, input, weight, bias, stride, padding, output_padding, groups, dilation, **choices)
    if out is not None:
        return out
    return torch.nn.functional.conv_transpose3d(
        input.contiguous(), weight, bias, stride, padding, output_padding, groups, dilation
    )
