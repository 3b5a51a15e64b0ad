"""Convolutions in fp32 as products: rows are output pixels, columns are output channels, three TF32 products over the window.

One kernel for one, two and three dimensions, for groups, and for transposed ones: there the outputs of one stride are channels of a
plain one.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.depthwise import depthwise
from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.matmul import product, product_pays
from bottega.compiler.library.triton.tiles import ALONE, kernel_ready, library_is_best, tile_warps, tiles


@triton.jit
def conv_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, pixels, size, G: tl.constexpr, OC: tl.constexpr, C: tl.constexpr,
    D: tl.constexpr, H: tl.constexpr, W: tl.constexpr, QD: tl.constexpr, QH: tl.constexpr, QW: tl.constexpr,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    UD: tl.constexpr, UH: tl.constexpr, UW: tl.constexpr, FD: tl.constexpr, FH: tl.constexpr, FW: tl.constexpr,
    RD: tl.constexpr, RH: tl.constexpr, RW: tl.constexpr,
    FLAT: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    across, piece = tl.cdiv(OC, BN), index_program(1, LARGE)
    pixel = (index_program(0, LARGE) // (across * G) * BM + index_lanes(BM, LARGE))[:, None]
    group = index_program(0, LARGE) // across % G
    oc = (index_program(0, LARGE) % across * BN + index_lanes(BN, LARGE))[None, :]
    n, od, oh, ow = pixel // (QD * QH * QW), pixel // (QH * QW) % QD, pixel // QW % QH, pixel % QW
    acc = tl.zeros((BM, BN), tl.float32)
    # The depth runs tap by tap with the channels inside, or, over few channels, through channels and taps as the weights lie.
    taps = KD * KH * KW
    depth = tl.cdiv(C * taps, 16) * 16 if FLAT else C
    blocks = tl.cdiv(depth, BK)
    for step in range(piece, blocks if FLAT else taps * blocks, SPLIT):
        c = step % blocks * BK + index_lanes(BK, LARGE)
        tap = (c % taps)[None, :] if FLAT else step // blocks
        spot = group * OC if FLAT else (step // blocks * G + group) * OC
        b = tl.load(weight_ptr + (spot + oc) * depth + c[:, None], mask=(oc < OC) & (c[:, None] < depth), other=0.0)
        c = (c // taps if FLAT else c)[None, :]
        d = od * SD - PD + tap // (KH * KW) * DD
        h = oh * SH - PH + tap // KW % KH * DH
        w = ow * SW - PW + tap % KW * DW
        inside = (pixel < pixels) & (d >= 0) & (d < D) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        at = (((n * G + group) * C * D + d) * H + h) * W + w
        a = tl.load(x_ptr + at + c * (D * H * W), mask=inside & (c < C), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    channel, phase = group * (OC // (UD * UH * UW)) + oc // (UD * UH * UW), oc % (UD * UH * UW)
    if bias_ptr is not None:
        acc += tl.where(piece == 0, tl.load(bias_ptr + channel, mask=oc < OC, other=0.0), 0.0)
    d, h, w = od * UD - RD + phase // (UH * UW), oh * UH - RH + phase // UW % UH, ow * UW - RW + phase % UW
    at = (((n * (G * OC // (UD * UH * UW)) + channel) * FD + d) * FH + h) * FW + w
    inside = (pixel < pixels) & (oc < OC) & (d < FD) & (h < FH) & (w < FW)
    if RD + RH + RW > 0:
        inside = inside & (d >= 0) & (h >= 0) & (w >= 0)
    tl.store(out_ptr + piece * size + at, acc, mask=inside)


def conv_tiles(pixels, groups, OC, C, depth, flat, deep=False):
    """Rows, columns and depth of a tile, pieces of the depth, warps: as measured; small tiles in pieces where few would run."""
    narrow, few = OC <= 32, triton.cdiv(pixels, 128) * triton.cdiv(OC, 128) * groups < 132
    if triton.cdiv(pixels, 128) * triton.cdiv(OC, 32 if narrow else 64) * groups < 100:
        BM, BN, split, warps = tiles(pixels, OC, depth, groups)
        return BM, BN, 32 if flat or C >= 32 else 16, split, warps
    if OC < 16 or (OC == 16 and groups > 1):
        return 128, 16, 16, 1, 4
    if flat and deep:
        return 128, 32 if narrow else 64, 32, 1, 8
    if narrow or flat:
        return 128, 32 if narrow else 64, 16, 1, 8 if groups > 1 and not narrow else 4
    if OC <= 64 or few:
        return 128, 64, 32, 1, 8
    return 128, 128, 64 if C % 64 == 0 or 32 < C < 64 else 32, 1, 8


def conv_product(
    x, weight, bias, size, taps, stride, padding, dilation, up=(1, 1, 1), groups=1, rest=(0, 0, 0), tile=None, warps=None, stages=None,
    splits=None,
):  # fmt: skip
    """Convolution of x (N, C, D, H, W) with weights (OC, channels of a group, *taps); up: outputs that are channels, rest: the first of
    them that are left out. A tile is pixels, channels and depth."""
    x, (N, _, *planes), (OC, C) = x.contiguous(), x.shape, weight.shape[:2]
    deep = taps[0] > 1
    fewest = 12 if deep else 16
    flat = fewest > C
    if flat:
        packed = weight.reshape(OC, -1)
        packed = torch.nn.functional.pad(packed, (0, -packed.shape[1] % 16))
    else:
        packed = weight.permute(2, 3, 4, 0, 1).contiguous()
    places = [triton.cdiv(f + r, u) for f, u, r in zip(size, up, rest)]
    pixels, width = N * places[0] * places[1] * places[2], OC // groups
    BM, BN, BK, split, many = conv_tiles(pixels, groups, width, C, packed.numel() // OC, flat, deep)
    if tile is not None:
        (BM, BN, BK), split, many = tile, 1, tile_warps(tile)
    split = splits or split
    dtype = x.dtype if split == 1 else torch.float32
    out = torch.empty(split, N, OC // (up[0] * up[1] * up[2]), *size, device=x.device, dtype=dtype)
    grid = (triton.cdiv(pixels, BM) * groups * triton.cdiv(width, BN), split)
    conv_kernel[grid](
        x, packed, bias, out, pixels, out[0].numel(), groups, width, C, *planes, *places, *taps,
        *stride, *padding, *dilation, *up, *size, *rest, FLAT=flat, SPLIT=split, BM=BM, BN=BN, BK=BK,
        LARGE=index_is_large(x, packed, out), num_warps=warps or many, num_stages=stages or 3,
    )  # fmt: skip
    return out[0] if split == 1 else out.sum(0).to(x.dtype)


def conv_option(value, dims, missing):
    """An option of a convolution over three dimensions, of which the first may be missing."""
    value = (value,) if isinstance(value, int) else tuple(value)
    return (missing,) * (3 - dims) + (value * dims if len(value) == 1 else value)


def conv_pointwise(x, weight, bias, **choices):
    """A window of one pixel: a product for each image, which lies pixel by pixel."""
    N, C = x.shape[:2]
    pixels = x.contiguous().view(1, N, C, -1).transpose(2, 3)
    matrix = weight.reshape(-1, C).t().expand(1, N, C, -1)
    return product(pixels, matrix, bias, turned=True, **choices).transpose(2, 3)


def conv_pays(dims, OC, C, groups, window, pixels, stride):
    """Whether the product is faster than the library: not over few channels; for large windows over small planes it has other ways."""
    if groups > 1:
        return ALONE or min(OC, C) >= 8 * groups
    narrow = OC < 16 or C * window < 16 or (dims == 3 and C < 12)
    large = dims == 2 and window >= 25 and stride == (1, 1, 1) and C >= 32 and pixels <= 4096
    return ALONE or not (narrow or large)


def conv_by_kernel(dims, input, weight, bias, stride, padding, dilation, groups, own=None, **choices):
    """A convolution by a kernel of ours, or None where it is the library's."""
    if input.dim() == dims + 1:
        out = conv_by_kernel(dims, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups, own, **choices)
        return None if out is None else out[0]
    fits = input.dim() == weight.dim() == dims + 2 and input.shape[1] == weight.shape[1] * groups
    fits = (
        fits and weight.shape[0] % groups == 0 and (bias is None or (bias.shape == weight.shape[:1] and bias.is_contiguous()))
    )
    if own is False or not fits or not kernel_ready(input, weight, bias):
        return None
    stride, dilation, same = conv_option(stride, dims, 1), conv_option(dilation, dims, 1), padding == "same"
    if isinstance(padding, str) and padding != "valid" and (not same or stride != (1, 1, 1)):
        return None
    (N, C, *planes), (OC, _, *taps) = input.shape, weight.shape
    planes, taps = [1] * (3 - dims) + planes, [1] * (3 - dims) + taps
    # Of an odd padding the larger half comes last: only the first is ever asked for.
    around = [d * (k - 1) // 2 for d, k in zip(dilation, taps)]
    padding = around if same else conv_option(0 if padding == "valid" else padding, dims, 0)
    size = [(i + 2 * p - d * (k - 1) - 1) // s + 1 for i, p, d, k, s in zip(planes, padding, dilation, taps, stride)]
    size = planes if same else size
    pixels, window = size[0] * size[1] * size[2], taps[0] * taps[1] * taps[2]
    if min(size) < 1:
        return None
    x, weight = input.reshape(N, C, *planes), weight.reshape(OC, -1, *taps)
    plain = groups == window == 1 and stride == (1, 1, 1) and not any(padding) and N <= 65535
    if groups == C > 1 and taps[2] <= 64 and (own or ALONE or stride == (1, 1, 1)):
        out = depthwise(x, weight, bias, size, stride, padding, dilation, **choices)
    elif not own and (
        (library_is_best(input) and not (plain and product_pays(pixels, OC, C, True)))
        or not conv_pays(dims, OC, C, groups, window, pixels, stride)
    ):
        return None
    elif plain and pixels >= 256 and C % 32 == pixels % 4 == 0 and OC >= 64:
        out = conv_pointwise(x, weight, bias, **choices)
    else:
        out = conv_product(x, weight, bias, size, taps, stride, padding, dilation, groups=groups, **choices)
    return out.reshape(N, OC, *size[3 - dims :])


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, **choices):
    """torch.nn.functional.conv1d."""
    out = conv_by_kernel(1, input, weight, bias, stride, padding, dilation, groups, **choices)
    return (
        torch.nn.functional.conv1d(input.contiguous(), weight, bias, stride, padding, dilation, groups) if out is None else out
    )


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, **choices):
    """torch.nn.functional.conv2d."""
    out = conv_by_kernel(2, input, weight, bias, stride, padding, dilation, groups, **choices)
    return (
        torch.nn.functional.conv2d(input.contiguous(), weight, bias, stride, padding, dilation, groups) if out is None else out
    )


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, **choices):
    """torch.nn.functional.conv3d."""
    out = conv_by_kernel(3, input, weight, bias, stride, padding, dilation, groups, **choices)
    return (
        torch.nn.functional.conv3d(input.contiguous(), weight, bias, stride, padding, dilation, groups) if out is None else out
    )
