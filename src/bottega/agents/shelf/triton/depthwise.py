"""Depthwise convolutions: each plane by a window of its own, limited by memory, so that no product is made of them."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl


@triton.jit
def depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, C, H, W, OC, OH, OW,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(OH, BH), tl.cdiv(OW, BW)
    tile, plane = tl.program_id(0) % (down * across), tl.program_id(0) // (down * across)
    oc = plane % OC
    oh = (tile // across * BH + tl.arange(0, BH))[:, None]
    ow = (tile % across * BW + tl.arange(0, BW))[None, :]
    x_ptr += (plane // OC * C + oc // (OC // C)) * (H * W)
    acc = tl.zeros((BH, BW), tl.float32)
    for kh in range(KH):
        h = oh * SH - PH + kh * DH
        for kw in tl.static_range(KW):
            w = ow * SW - PW + kw * DW
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + h * W + w, mask=inside, other=0.0)
            acc += x * tl.load(weight_ptr + (oc * KH + kh) * KW + kw)
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + oc)
    tl.store(out_ptr + (plane * OH + oh) * OW + ow, acc, mask=(oh < OH) & (ow < OW))


def depthwise(x, weight, bias, size, stride, padding, dilation):
    """Convolution of x (N, C, H, W) with weights (OC, 1, KH, KW), one group for each channel."""
    (N, C, H, W), (OC, _, KH, KW), (OH, OW) = x.shape, weight.shape, size
    if KW > 64:
        return None
    BW = min(128 if OH > 1 else 1024, max(16, triton.next_power_of_2(OW)))
    BH = min(1024 // BW, triton.next_power_of_2(OH))
    out = torch.empty(N, OC, OH, OW, device=x.device)
    grid = (N * OC * triton.cdiv(OH, BH) * triton.cdiv(OW, BW),)
    depthwise_kernel[grid](
        x.contiguous(), weight.contiguous(), bias, out, C, H, W, OC, OH, OW, KH, KW, *stride, *padding, *dilation, BH, BW
    )
    return out
