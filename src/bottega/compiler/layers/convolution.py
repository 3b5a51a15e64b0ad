"""Convolutions with a kernel of ours: taps outside, channels inside, over weights packed in that order.

One window of any size, stride, padding and dilation; a window of one pixel is a plain product. Convolutions of one dimension are the
same over planes of one row. A transposed one is a convolution with turned weights that computes the outputs of one stride as channels.
"""

from __future__ import annotations

from bottega.compiler.layers.pattern import Pattern

CONVOLUTION = Pattern(
    kernel="""
@triton.jit
def conv_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, pixels, C, H, W, OC, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW,
                SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across, piece = tl.cdiv(OC, BN), tl.program_id(1)
    pixel = (tl.program_id(0) // across * BM + tl.arange(0, BM))[:, None]
    oc = (tl.program_id(0) % across * BN + tl.arange(0, BN))[None, :]
    n, oh, ow = pixel // (OH * OW), pixel // OW % OH, pixel % OW
    acc = tl.zeros((BM, BN), tl.float32)
    blocks = tl.cdiv(C, BK)
    for step in range(piece, KH * KW * blocks, SPLIT):
        tap = step // blocks
        c = step % blocks * BK + tl.arange(0, BK)
        h = oh * SH - PH + tap // KW * DH
        w = ow * SW - PW + tap % KW * DW
        inside = (pixel < pixels) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        at = (n * C * H + h) * W + w
        a = tl.load(x_ptr + at + c[None, :] * (H * W), mask=inside & (c[None, :] < C), other=0.0)
        b = tl.load(weight_ptr + (tap * OC + oc) * C + c[:, None], mask=(oc < OC) & (c[:, None] < C), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    if bias_ptr is not None:
        acc += tl.where(piece == 0, tl.load(bias_ptr + oc, mask=oc < OC, other=0.0), 0.0)
    at = piece * pixels * OC + ((n * OC + oc) * OH + oh) * OW + ow
    tl.store(out_ptr + at, acc, mask=(pixel < pixels) & (oc < OC))


def conv2d(x, weight, bias, stride, padding, dilation, size=None):
    (N, C, H, W), (OC, _, KH, KW) = x.shape, weight.shape
    OH = (H + 2 * padding[0] - dilation[0] * (KH - 1) - 1) // stride[0] + 1
    OW = (W + 2 * padding[1] - dilation[1] * (KW - 1) - 1) // stride[1] + 1
    OH, OW = size or (OH, OW)
    pixels = N * OH * OW
    BM, BN, split, warps = tiles(pixels, OC, C * KH * KW)
    packed = weight.permute(2, 3, 0, 1).contiguous()
    out = torch.empty(split, N, OC, OH, OW, device=x.device)
    grid = (triton.cdiv(pixels, BM) * triton.cdiv(OC, BN), split)
    conv_kernel[grid](x.contiguous(), packed, bias, out, pixels, C, H, W, OC, OH, OW, KH, KW, *stride, *padding, *dilation,
                      SPLIT=split, BM=BM, BN=BN, BK=64 if C >= 128 else 32 if C >= 32 else 16, num_warps=warps)
    return out[0] if split == 1 else out.sum(0)
""",
    classes={
        "Conv2d": """
class Conv2d(nn.Conv2d):
    def forward(self, x):
        # Groups, few channels and unusual padding are the library's.
        if x.dtype != torch.float32 or x.dim() != 4 or self.groups != 1 or min(self.weight.shape[:2]) < 16:
            return super().forward(x)
        if self.padding_mode != "zeros" or isinstance(self.padding, str):
            return super().forward(x)
        return conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)
""",
        "Conv1d": """
class Conv1d(nn.Conv1d):
    def forward(self, x):
        if x.dtype != torch.float32 or x.dim() != 3 or self.groups != 1 or min(self.weight.shape[:2]) < 16:
            return super().forward(x)
        if self.padding_mode != "zeros" or isinstance(self.padding, str):
            return super().forward(x)
        stride, padding, dilation = (1, *self.stride), (0, *self.padding), (1, *self.dilation)
        return conv2d(x.unsqueeze(2), self.weight.unsqueeze(2), self.bias, stride, padding, dilation).squeeze(2)
""",
        "ConvTranspose2d": """
class ConvTranspose2d(nn.ConvTranspose2d):
    def forward(self, x, output_size=None):
        s = self.stride[0]
        plain = self.groups == 1 and self.stride == (s, s) and self.dilation == (1, 1) and output_size is None and x.dim() == 4
        inside = all(p < k for p, k in zip(self.padding, self.kernel_size))
        if x.dtype != torch.float32 or not plain or not inside or min(self.weight.shape[:2]) < 16:
            return super().forward(x, output_size)
        # Each output of a stride becomes a channel; its taps lie a stride apart, last first.
        C, OC, KH, KW = self.weight.shape
        (top, left), (bottom, right) = [-p % s for p in self.padding], [(p - k) % s for p, k in zip(self.padding, (KH, KW))]
        weight = nn.functional.pad(self.weight, (left, right, top, bottom))
        TH, TW = weight.shape[2] // s, weight.shape[3] // s
        weight = weight.view(C, OC, TH, s, TW, s).flip(2, 4).permute(1, 3, 5, 0, 2, 4).reshape(-1, C, TH, TW)
        bias = None if self.bias is None else self.bias.repeat_interleave(s * s)
        OH, OW = [(i - 1) * s - 2 * p + k + o for i, p, k, o in zip(x.shape[2:], self.padding, (KH, KW), self.output_padding)]
        padding = [t - 1 - triton.cdiv(p, s) for t, p in zip((TH, TW), self.padding)]
        out = conv2d(x, weight, bias, (1, 1), padding, (1, 1), (triton.cdiv(OH, s), triton.cdiv(OW, s)))
        return nn.functional.pixel_shuffle(out, s)[:, :, :OH, :OW]
""",
    },
)
