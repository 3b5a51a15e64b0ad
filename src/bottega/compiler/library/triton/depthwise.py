"""Depthwise convolutions: each plane by a window of its own, limited by memory, so that no product is made of them."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program


@triton.jit
def depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, C, D, H, W, OC, OD, OH, OW,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    BH: tl.constexpr, BW: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(OH, BH), tl.cdiv(OW, BW)
    if LARGE:
        D = tl.cast(D, tl.int64)
    tile, plane = index_program(0, LARGE) % (down * across), index_program(0, LARGE) // (down * across)
    od, oc, n = plane % OD, plane // OD % OC, plane // OD // OC
    oh = (tile // across * BH + index_lanes(BH, LARGE))[:, None]
    ow = (tile % across * BW + index_lanes(BW, LARGE))[None, :]
    x_ptr += (n * C + oc // (OC // C)) * (D * H * W)
    acc = tl.zeros((BH, BW), tl.float32)
    for k in range(KD * KH):
        d = od * SD - PD + k // KH * DD
        h = oh * SH - PH + k % KH * DH
        rows = tl.where((d >= 0) & (d < D), H, 0)
        for kw in tl.static_range(KW):
            w = ow * SW - PW + kw * DW
            inside = (h >= 0) & (h < rows) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + (d * H + h) * W + w, mask=inside, other=0.0).to(tl.float32)
            acc += x * tl.load(weight_ptr + (oc * (KD * KH) + k) * KW + kw)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + oc)
    tl.store(out_ptr + (plane * OH + oh) * OW + ow, acc, mask=(oh < OH) & (ow < OW))


def depthwise(x, weight, bias, size, stride, padding, dilation, tile=None, warps=None):
    """Convolution of x (N, C, D, H, W) with weights (OC, 1, KD, KH, KW), one group for each channel; a tile is rows and columns of a plane."""
    x, (N, C, *planes), (OC, _, *taps), (OD, OH, OW) = x.contiguous(), x.shape, weight.shape, size
    BW = min(128 if OH > 1 else 1024, max(16, triton.next_power_of_2(OW)))
    BH = min(max(1, (1024 if max(stride) == 1 else 512) // BW), triton.next_power_of_2(OH))
    BH, BW = (BH, BW) if tile is None else tile[:2]
    out = torch.empty(N, OC, *size, device=x.device, dtype=x.dtype)
    grid = (N * OC * OD * triton.cdiv(OH, BH) * triton.cdiv(OW, BW),)
    depthwise_kernel[grid](
        x, weight.contiguous(), bias, out, C, *planes, OC, *size, *taps, *stride, *padding, *dilation, BH, BW,
        LARGE=index_is_large(x, out), num_warps=warps or 4,
    )  # fmt: skip
    return out
