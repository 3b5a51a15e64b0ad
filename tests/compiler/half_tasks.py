"""Modules in bfloat16 and float16 as people have them, small: a decoder layer, a ConvNeXt block, losses, and what stands around products."""

from __future__ import annotations

from small_tasks import task

from bottega.core.task import Task

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
_TAIL = "\n\ndef get_init_inputs():\n    return []\n"

DECODER = (
    _HEAD
    + """class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, groups * self.width, bias=False)
        self.v = nn.Linear(dim, groups * self.width, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.heads, self.width).transpose(1, 2)
        k = self.k(x).view(b, t, self.groups, self.width).transpose(1, 2)
        v = self.v(x).view(b, t, self.groups, self.width).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(seen.transpose(1, 2).reshape(b, t, c))


class DecoderLayer(nn.Module):
    def __init__(self, dim=32, heads=4, groups=2, hidden=48):
        super().__init__()
        self.before, self.after = RMSNorm(dim), RMSNorm(dim)
        self.attention = Attention(dim, heads, groups)
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.to(torch.DTYPE)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.before(x), cos, sin)
        hidden = self.after(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


Model = DecoderLayer


def get_inputs():
    angles = torch.arange(6.0)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03] * 2)
    return [torch.randn(2, 6, 32, dtype=torch.DTYPE), angles.cos().to(torch.DTYPE), angles.sin().to(torch.DTYPE)]
"""
    + _TAIL
)

CONVNEXT = (
    _HEAD
    + """class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.grow, self.shrink = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.scale = nn.Parameter(torch.full((dim,), 1e-2))
        self.to(torch.bfloat16)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.shrink(F.gelu(self.grow(y)))
        return x + y.permute(0, 3, 1, 2)


Model = Block


def get_inputs():
    return [torch.randn(2, 16, 6, 6, dtype=torch.bfloat16)]
"""
    + _TAIL
)

FOCAL_DICE = (
    _HEAD
    + """class FocalDice(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0, smooth=1.0):
        super().__init__()
        self.alpha, self.gamma, self.smooth = alpha, gamma, smooth

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        cross = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        right = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        focal = (weight * (1 - right) ** self.gamma * cross).mean()
        both = (p * target).sum((1, 2, 3))
        dice = 1 - (2 * both + self.smooth) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + self.smooth)
        return focal + dice.mean()


Model = FocalDice


def get_inputs():
    return [torch.randn(3, 2, 5, 6).DTYPE(), (torch.rand(3, 2, 5, 6) > 0.5).DTYPE()]
"""
    + _TAIL
)

H = ", dtype=torch.bfloat16"
HALVES = [
    Task(DECODER.replace("DTYPE", "bfloat16"), "decoder_bf16").validate(),
    Task(DECODER.replace("DTYPE", "float16"), "decoder_fp16").validate(),
    Task(CONVNEXT, "convnext_bf16").validate(),
    Task(FOCAL_DICE.replace("DTYPE", "float"), "focal_dice").validate(),
    Task(FOCAL_DICE.replace("DTYPE", "bfloat16"), "focal_dice_bf16").validate(),
    task("product_tail_bf16", "return F.relu((x @ self.w - 2) * 1.5)", f"torch.randn(20, 32{H})",
         f"self.w = nn.Parameter(torch.randn(32, 24{H}))"),
    task("residual_norm_bf16", "y = x + self.fc(x)\nreturn y, self.n(y)", f"torch.randn(6, 16{H})",
         "self.fc = nn.Linear(16, 16).bfloat16()\nself.n = nn.LayerNorm(16).bfloat16()"),
    task("vocabulary_bf16", "return F.cross_entropy(self.head(x).float(), t)", f"torch.randn(7, 16{H}), torch.randint(0, 40, (7,))",
         "self.head = nn.Linear(16, 40, bias=False).bfloat16()", "x, t"),
    task("counted_bf16", "return torch.zeros_like(x).index_add(0, t, torch.ones_like(x)) * x", f"torch.randn(5, 8{H}), torch.tensor([0, 3, 3, 1, 3])",
         arguments="x, t"),
    task("embedded_bf16", "return F.rms_norm(self.e(t), (16,), self.g, 1e-6)", "torch.randint(0, 9, (3, 4))",
         f"self.e = nn.Embedding(9, 16).bfloat16()\nself.g = nn.Parameter(torch.ones(16{H}))", "t"),
    task("masked_attention_fp16", "return F.scaled_dot_product_attention(x, y, y, attn_mask=m)",
         "torch.randn(2, 3, 5, 16).half(), torch.randn(2, 3, 7, 16).half(), torch.rand(5, 7) > 0.2", arguments="x, y, m"),
    task("middle_bf16", "return x.mean(1), x.amax(1)", f"torch.randn(3, 20, 24{H})"),
    task("short_product_bf16", "return F.silu(self.fc(x)) * 2", f"torch.randn(1030, 32{H})", "self.fc = nn.Linear(32, 48).bfloat16()"),
    task("joined_rows_bf16", "return torch.cat((x, torch.tanh(y)), dim=1) * 2", f"torch.randn(3, 5{H}), torch.randn(3, 4{H})", arguments="x, y"),
    task("weights_e4m3", "return F.silu(F.linear(x, self.w.to(x.dtype) * self.s))", f"torch.randn(6, 32{H})",
         f"self.register_buffer('w', torch.randn(24, 32).to(torch.float8_e4m3fn))\nself.register_buffer('s', torch.rand(24, 1{H}))"),
    task("lone_query_bf16", "return F.scaled_dot_product_attention(q, x, y) * 2",
         f"torch.randn(2, 3, 1, 16{H}), torch.randn(2, 3, 7, 16{H}), torch.randn(2, 3, 7, 16{H})", arguments="q, x, y"),
    task("normed_heads_bf16",
         "q, k, v = (p(x).view(2, 6, 4, 8) for p in (self.q, self.k, self.v))\nn = q.float()\n"
         "q = (n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.w\nq = q.transpose(1, 2)\n"
         "q = q * c + torch.cat((-q[..., 4:], q[..., :4]), -1) * s\n"
         "return F.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2).reshape(2, 6, 32)",
         f"torch.randn(2, 6, 32{H}), torch.randn(6, 8{H}), torch.randn(6, 8{H})",
         "self.q, self.k, self.v = (nn.Linear(32, 32, bias=False).bfloat16() for _ in range(3))\n"
         "self.w = nn.Parameter(torch.ones(8).bfloat16())", "x, c, s"),
    task("heads_first_bf16", "q, k, v = (torch.tanh(each) for each in (x, y, z))\nreturn F.scaled_dot_product_attention(q, k, v)",
         f"torch.randn(2, 3, 6, 8{H}), torch.randn(2, 3, 5, 8{H}), torch.randn(2, 3, 5, 8{H})", arguments="x, y, z"),
    task("residual_sum_bf16", "r = F.softmax(x, -1)\nreturn r + self.fc(F.gelu(r))", f"torch.randn(3, 6, 16{H})",
         "self.fc = nn.Linear(16, 16, bias=False).bfloat16()"),
    task("biased_sum_bf16", "r = F.layer_norm(x, (16,))\nreturn r * 2 + self.b(F.gelu(self.a(torch.sin(r)), approximate='tanh'))",
         f"torch.randn(3, 6, 16{H})", "self.a, self.b = nn.Linear(16, 24).bfloat16(), nn.Linear(24, 16).bfloat16()"),
    task("convolved_bias_bf16", "return F.gelu(self.n(self.c(x).transpose(1, 2)).transpose(1, 2))", f"torch.randn(2, 8, 21{H})",
         "self.c, self.n = nn.Conv1d(8, 16, 3, stride=2).bfloat16(), nn.LayerNorm(16).bfloat16()"),
    task("unbatched_bias_bf16", "return F.gelu(self.c(x)) * 2", f"torch.randn(8, 16{H})", "self.c = nn.Conv1d(8, 16, 3, padding=1).bfloat16()"),
    task("other_biases_bf16", "r = F.softmax(x, -1)\nh = F.gelu(r)\ncomputed = r + F.linear(h, self.w, torch.softmax(self.b, 0))\n"
         "q = F.softmax(y, -1)\nreturn computed, q + torch.addmm(self.one, F.gelu(q), self.w)", f"torch.randn(6, 16{H}), torch.randn(6, 16{H})",
         "self.b, self.one = (nn.Parameter(torch.randn(n).bfloat16()) for n in (16, 1))\n"
         "self.w = nn.Parameter(torch.randn(16, 16).bfloat16())", "x, y"),
    task("self_attention_bf16", "return x + self.m(x, x, x, need_weights=False)[0]", f"torch.randn(2, 6, 32{H})",
         "self.m = nn.MultiheadAttention(32, 4, batch_first=True).bfloat16().eval()"),
    task("turned_bf16", "return x.transpose(1, 2) * 2 + y", f"torch.randn(2, 300, 70{H}), torch.randn(2, 70, 300{H})", arguments="x, y"),
    task("tanh_sum_bf16", "return 0.5 * x * (1 + torch.tanh(x + 0.04 * x ** 3)), torch.log1p(torch.exp(x)), 1 + torch.erf(x)",
         f"torch.randn(5, 40{H}) * 4"),
    task("long_logits_bf16", "return F.cross_entropy(x, t), torch.logsumexp(y, -1), F.softmax(y, -1)",
         f"torch.randn(3, 20000{H}) * 3, torch.randint(0, 20000, (3,)), torch.randn(140, 17000{H})", arguments="x, t, y"),
    task("partly_rotated_bf16", "a, b = x[..., :8], x[..., 8:]\na = a * c + torch.cat((-a[..., 4:], a[..., :4]), -1) * s\n"
         "return torch.cat((a, b), -1)", f"torch.randn(2, 3, 5, 32{H}), torch.randn(5, 8{H}), torch.randn(5, 8{H})", arguments="x, c, s"),
    *(task(f"response_norm_{kind}", "y = F.gelu(x)\nn = torch.linalg.vector_norm(y, dim=(1, 2), keepdim=True)\n"
           "return self.w * (y * (n / (n.mean(-1, keepdim=True) + 1e-6))) + self.b + y", f"torch.randn(2, 7, 6, 8, dtype=torch.{kind})",
           f"self.w, self.b = (nn.Parameter(torch.randn(8, dtype=torch.{kind})) for _ in range(2))")
      for kind in ("bfloat16", "float16", "float32")),
    *(task(f"query_and_key_{kind}", "q, k = (y.view(2, 5, -1, 16) for y in (q, k))\n"
           "q, k = (F.rms_norm(y, (16,), w, 1e-6).transpose(1, 2) for y, w in ((q, self.q), (k, self.k)))\n"
           "return tuple(y * c + torch.cat((-y[..., 8:], y[..., :8]), -1) * s for y in (q, k))",
           ", ".join(f"torch.randn({size}, dtype=torch.{kind})" for size in ("2, 5, 96", "2, 5, 32", "5, 16", "5, 16")),
           f"self.q, self.k = (nn.Parameter(torch.randn(16, dtype=torch.{kind})) for _ in range(2))", arguments="q, k, c, s")
      for kind in ("bfloat16", "float16", "float32")),
    *(task(f"even_rows_{kind}", "r = x + y\nw = z.float()\nw = self.h * (w * torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + 1e-6)).to(z.dtype)\n"
           "return r, F.layer_norm(r, (12,), self.g, self.b), F.softmax(z, -1), z.amax(-1), w",
           ", ".join(f"torch.randn({size}, dtype=torch.{kind})" for size in ("3, 12", "3, 12", "2, 21")),
           f"self.g, self.b, self.h = (nn.Parameter(torch.randn(size, dtype=torch.{kind})) for size in (12, 12, 21))", arguments="x, y, z")
      for kind in ("bfloat16", "float16")),
    task("even_constants_bf16", "r = y.expand(3, 12)\nreturn r.sum(-1) + x.amax(-1), (x.sum(-1, keepdim=True) + 3).expand(3, 12).sum(-1)",
         f"torch.randn(3, 12{H}), torch.randn(3, 1{H})", arguments="x, y"),
    task("rotated_pair_bf16", "return tuple(y * c + torch.cat((-y[..., 4:], y[..., :4]), -1) * s for y in (q, k))",
         f"torch.randn(2, 5, 4, 8{H}).transpose(1, 2), torch.randn(2, 2, 5, 8{H}), torch.randn(5, 8{H}), torch.randn(5, 8{H})",
         arguments="q, k, c, s"),
]  # fmt: skip
"""Judged by the error of the module in its own type."""
