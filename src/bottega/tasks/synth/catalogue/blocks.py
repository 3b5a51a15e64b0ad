"""Blocks that keep their shape, so that they stand alone or one behind the other in a network.

A text may ask for `@act[...]`, an activation around an expression, and for `@norm[...]`, a normalisation of so many channels: which ones they
are is drawn for each task. `channels`, `dim` or `features` is what every block takes first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockTemplate:
    name: str
    layout: str
    init: str
    forward: str
    operators: str
    """Names of the catalogue that it is made of; `act` and `norm` stand for those that are drawn."""
    multiple: int = 8
    options: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Further arguments of the constructor."""

    @property
    def title(self) -> str:
        return self.name.title().replace("_", "") + "Block"


IMAGE_BLOCKS = (
    BlockTemplate(
        "residual_conv",
        "nchw",
        (
            "self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)\nself.norm1 = @norm[channels]\n"
            "self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)\nself.norm2 = @norm[channels]"
        ),
        "out = @act[self.norm1(self.conv1(x))]\nout = self.norm2(self.conv2(out))\nreturn @act[out + x]",
        "conv2d conv2d norm norm act act add",
    ),
    BlockTemplate(
        "preact_residual",
        "nchw",
        (
            "self.norm1 = @norm[channels]\nself.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)\n"
            "self.norm2 = @norm[channels]\nself.conv2 = nn.Conv2d(channels, channels, 3, padding=1)"
        ),
        "h = self.conv1(@act[self.norm1(x)])\nh = self.conv2(@act[self.norm2(h)])\nreturn x + h",
        "conv2d conv2d norm norm act act add",
    ),
    BlockTemplate(
        "bottleneck",
        "nchw",
        (
            "mid = channels // reduction\nself.reduce = nn.Conv2d(channels, mid, 1, bias=False)\n"
            "self.norm1 = @norm[mid]\nself.conv = nn.Conv2d(mid, mid, 3, padding=1, bias=False)\n"
            "self.norm2 = @norm[mid]\nself.expand = nn.Conv2d(mid, channels, 1, bias=False)\n"
            "self.norm3 = @norm[channels]"
        ),
        (
            "identity = x\nout = @act[self.norm1(self.reduce(x))]\nout = @act[self.norm2(self.conv(out))]\n"
            "out = self.norm3(self.expand(out))\nreturn @act[out + identity]"
        ),
        "conv2d_pointwise conv2d conv2d_pointwise norm norm norm act act act add",
        multiple=32,
        options=(("reduction", (2, 4)),),
    ),
    BlockTemplate(
        "inverted_residual",
        "nchw",
        (
            "hidden = channels * expansion\nself.expand = nn.Conv2d(channels, hidden, 1, bias=False)\n"
            "self.norm1 = @norm[hidden]\n"
            "self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False)\n"
            "self.norm2 = @norm[hidden]\nself.project = nn.Conv2d(hidden, channels, 1, bias=False)\n"
            "self.norm3 = @norm[channels]"
        ),
        (
            "h = @act[self.norm1(self.expand(x))]\nh = @act[self.norm2(self.depthwise(h))]\n"
            "return x + self.norm3(self.project(h))"
        ),
        "conv2d_pointwise conv2d_depthwise conv2d_pointwise norm norm norm act act add",
        options=(("expansion", (2, 3, 4)),),
    ),
    BlockTemplate(
        "squeeze_excite",
        "nchw",
        (
            "self.conv = nn.Conv2d(channels, channels, 3, padding=1)\n"
            "self.fc1 = nn.Linear(channels, channels // reduction)\n"
            "self.fc2 = nn.Linear(channels // reduction, channels)"
        ),
        (
            "x = @act[self.conv(x)]\ns = x.mean(dim=(2, 3))\ns = torch.sigmoid(self.fc2(torch.relu(self.fc1(s))))\n"
            "return x * s[:, :, None, None]"
        ),
        "conv2d act global_avg_pool linear linear relu sigmoid multiply",
        options=(("reduction", (2, 4, 8)),),
    ),
    BlockTemplate(
        "channel_attention_max",
        "nchw",
        (
            "self.mlp = nn.Sequential(nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels))\n"
            "self.conv = nn.Conv2d(2, 1, 7, padding=3)"
        ),
        (
            "b, c = x.shape[:2]\n"
            "scale = torch.sigmoid(self.mlp(x.mean(dim=(2, 3))) + self.mlp(x.amax(dim=(2, 3)))).view(b, c, 1, 1)\n"
            "x = x * scale\n"
            "spatial = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)\n"
            "return x * torch.sigmoid(self.conv(spatial))"
        ),
        "global_avg_pool global_max_pool linear linear sigmoid multiply mean amax concatenate conv2d",
        options=(("reduction", (2, 4, 8)),),
    ),
    BlockTemplate(
        "convnext",
        "nchw",
        (
            "self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)\n"
            "self.norm = nn.LayerNorm(channels)\nself.fc1 = nn.Linear(channels, expansion * channels)\n"
            "self.fc2 = nn.Linear(expansion * channels, channels)\n"
            "self.gamma = nn.Parameter(0.5 * torch.ones(channels))"
        ),
        (
            "h = self.depthwise(x).permute(0, 2, 3, 1)\nh = self.norm(h)\nh = self.fc2(@act[self.fc1(h)])\n"
            "h = (self.gamma * h).permute(0, 3, 1, 2)\nreturn x + h"
        ),
        "conv2d_depthwise layer_norm linear act linear channel_scale add",
        options=(("expansion", (2, 4)),),
    ),
    BlockTemplate(
        "dense_layer",
        "nchw",
        (
            "self.norm1 = @norm[channels]\nself.conv1 = nn.Conv2d(channels, growth, 3, padding=1, bias=False)\n"
            "self.norm2 = @norm[channels + growth]\n"
            "self.conv2 = nn.Conv2d(channels + growth, channels, 1, bias=False)"
        ),
        ("h = self.conv1(@act[self.norm1(x)])\nh = torch.cat([x, h], dim=1)\nreturn self.conv2(@act[self.norm2(h)])"),
        "norm norm conv2d conv2d_pointwise act act concatenate",
        options=(("growth", (8, 16, 32)),),
    ),
    BlockTemplate(
        "inception",
        "nchw",
        (
            "quarter = channels // 4\nself.branch1 = nn.Conv2d(channels, quarter, 1)\n"
            "self.branch3 = nn.Sequential(nn.Conv2d(channels, quarter, 1), nn.ReLU(), nn.Conv2d(quarter, quarter, 3, padding=1))\n"
            "self.branch5 = nn.Sequential(nn.Conv2d(channels, quarter, 1), nn.ReLU(), nn.Conv2d(quarter, quarter, 5, padding=2))\n"
            "self.pool_proj = nn.Conv2d(channels, channels - 3 * quarter, 1)"
        ),
        (
            "a = self.branch1(x)\nb = self.branch3(x)\nc = self.branch5(x)\n"
            "d = self.pool_proj(F.max_pool2d(x, 3, stride=1, padding=1))\n"
            "return @act[torch.cat([a, b, c, d], dim=1)]"
        ),
        "conv2d_pointwise conv2d conv2d max_pool2d concatenate act relu relu",
    ),
    BlockTemplate(
        "fire",
        "nchw",
        (
            "self.squeeze = nn.Conv2d(channels, channels // 4, 1)\n"
            "self.expand1 = nn.Conv2d(channels // 4, channels // 2, 1)\n"
            "self.expand3 = nn.Conv2d(channels // 4, channels // 2, 3, padding=1)"
        ),
        "s = @act[self.squeeze(x)]\nreturn torch.cat([@act[self.expand1(s)], @act[self.expand3(s)]], dim=1)",
        "conv2d_pointwise conv2d_pointwise conv2d act act act concatenate",
    ),
    BlockTemplate(
        "shuffle_unit",
        "nchw",
        (
            "half = channels // 2\nself.conv1 = nn.Conv2d(half, half, 1, bias=False)\nself.norm1 = @norm[half]\n"
            "self.depthwise = nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False)\n"
            "self.norm2 = @norm[half]\nself.conv2 = nn.Conv2d(half, half, 1)"
        ),
        (
            "left, right = x.chunk(2, dim=1)\nright = @act[self.norm1(self.conv1(right))]\n"
            "right = self.norm2(self.depthwise(right))\nright = @act[self.conv2(right)]\n"
            "out = torch.cat([left, right], dim=1)\nb, c, h, w = out.shape\n"
            "return out.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)"
        ),
        "conv2d_pointwise conv2d_depthwise conv2d_pointwise norm norm act act concatenate channel_shuffle",
    ),
    BlockTemplate(
        "depthwise_separable_block",
        "nchw",
        (
            "self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)\n"
            "self.norm1 = @norm[channels]\nself.pointwise = nn.Conv2d(channels, channels, 1, bias=False)\n"
            "self.norm2 = @norm[channels]"
        ),
        "x = @act[self.norm1(self.depthwise(x))]\nreturn @act[self.norm2(self.pointwise(x))]",
        "conv2d_depthwise conv2d_pointwise norm norm act act",
    ),
    BlockTemplate(
        "conv_gate",
        "nchw",
        (
            "self.features = nn.Conv2d(channels, channels, 3, padding=1)\n"
            "self.gate = nn.Conv2d(channels, channels, 3, padding=1)"
        ),
        "return @act[self.features(x)] * torch.sigmoid(self.gate(x))",
        "conv2d conv2d act sigmoid multiply",
    ),
    BlockTemplate(
        "dilated_context",
        "nchw",
        (
            "self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)\n"
            "self.conv2 = nn.Conv2d(channels, channels, 3, padding=2, dilation=2)\n"
            "self.conv3 = nn.Conv2d(channels, channels, 3, padding=4, dilation=4)\n"
            "self.fuse = nn.Conv2d(3 * channels, channels, 1)"
        ),
        ("h = torch.cat([@act[self.conv1(x)], @act[self.conv2(x)], @act[self.conv3(x)]], dim=1)\nreturn self.fuse(h) + x"),
        "conv2d conv2d_dilated conv2d_dilated conv2d_pointwise act act act concatenate add",
    ),
    BlockTemplate(
        "hourglass",
        "nchw",
        (
            "self.down = nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1)\n"
            "self.middle = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)\n"
            "self.up = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)"
        ),
        "h = @act[self.down(x)]\nh = @act[self.middle(h)]\nreturn x + self.up(h)",
        "conv2d_strided conv2d conv_transpose2d act act add",
    ),
)

SEQUENCE_BLOCKS = (
    BlockTemplate(
        "transformer_encoder",
        "sequence",
        (
            "self.num_heads = num_heads\nself.norm1 = @norm[dim]\nself.qkv = nn.Linear(dim, 3 * dim)\n"
            "self.proj = nn.Linear(dim, dim)\nself.norm2 = @norm[dim]\nself.fc1 = nn.Linear(dim, 4 * dim)\n"
            "self.fc2 = nn.Linear(4 * dim, dim)"
        ),
        (
            "b, n, c = x.shape\n"
            "qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)\n"
            "attn = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])\n"
            "x = x + self.proj(attn.transpose(1, 2).reshape(b, n, c))\n"
            "return x + self.fc2(@act[self.fc1(self.norm2(x))])"
        ),
        "norm norm self_attention linear linear act add add",
        multiple=16,
        options=(("num_heads", (2, 4, 8)),),
    ),
    BlockTemplate(
        "transformer_decoder",
        "sequence",
        (
            "self.num_heads = num_heads\nself.norm1 = @norm[dim]\nself.query = nn.Linear(dim, dim)\n"
            "self.key = nn.Linear(dim, dim, bias=False)\nself.value = nn.Linear(dim, dim)\n"
            "self.out = nn.Linear(dim, dim)\nself.norm2 = @norm[dim]\n"
            "self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))"
        ),
        (
            "b, t, c = x.shape\nh = self.norm1(x)\n"
            "q, k, v = (layer(h).view(b, t, self.num_heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))\n"
            "scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\n"
            "mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)\n"
            "weights = torch.softmax(scores.masked_fill(mask, float('-inf')), dim=-1)\n"
            "x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))\nreturn x + self.mlp(self.norm2(x))"
        ),
        "norm norm attention_causal linear linear linear linear linear linear gelu add add",
        multiple=16,
        options=(("num_heads", (2, 4, 8)),),
    ),
    BlockTemplate(
        "gated_mlp",
        "sequence",
        (
            "self.norm = @norm[dim]\nself.gate = nn.Linear(dim, hidden, bias=False)\n"
            "self.up = nn.Linear(dim, hidden, bias=False)\nself.down = nn.Linear(hidden, dim, bias=False)"
        ),
        "h = self.norm(x)\nreturn x + self.down(@act[self.gate(h)] * self.up(h))",
        "norm linear linear linear act multiply add",
        options=(("hidden", (128, 256, 344, 512)),),
    ),
    BlockTemplate(
        "mlp_block",
        "sequence",
        "self.norm = @norm[dim]\nself.fc1 = nn.Linear(dim, hidden)\nself.fc2 = nn.Linear(hidden, dim)",
        "return x + self.fc2(@act[self.fc1(self.norm(x))])",
        "norm linear linear act add",
        options=(("hidden", (128, 256, 512)),),
    ),
    BlockTemplate(
        "mixer",
        "sequence",
        (
            "self.norm1 = @norm[dim]\n"
            "self.token_mix = nn.Sequential(nn.Linear(tokens, token_hidden), nn.GELU(), nn.Linear(token_hidden, tokens))\n"
            "self.norm2 = @norm[dim]\n"
            "self.channel_mix = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))"
        ),
        ("x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)\nreturn x + self.channel_mix(self.norm2(x))"),
        "norm norm linear linear linear linear gelu gelu transpose_copy add add",
        options=(("token_hidden", (32, 64, 128)),),
    ),
    BlockTemplate(
        "linear_attention_block",
        "sequence",
        (
            "self.num_heads = num_heads\nself.qkv = nn.Linear(dim, 3 * dim, bias=False)\n"
            "self.out = nn.Linear(dim, dim)\nself.norm = @norm[dim]"
        ),
        (
            "b, n, c = x.shape\n"
            "q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)\n"
            "q, k = F.elu(q) + 1, F.elu(k) + 1\ncontext = k.transpose(-2, -1) @ v\n"
            "normaliser = q @ k.sum(dim=-2).unsqueeze(-1)\nh = (q @ context) / normaliser\n"
            "return x + self.out(h.transpose(1, 2).reshape(b, n, c))"
        ),
        "norm linear linear linear_attention elu elu add",
        multiple=16,
        options=(("num_heads", (2, 4)),),
    ),
    BlockTemplate(
        "conv_module",
        "sequence",
        (
            "self.norm = @norm[dim]\nself.pointwise1 = nn.Conv1d(dim, 2 * dim, 1)\n"
            "self.depthwise = nn.Conv1d(dim, dim, kernel_size, padding=kernel_size // 2, groups=dim)\n"
            "self.pointwise2 = nn.Conv1d(dim, dim, 1)"
        ),
        (
            "h = self.norm(x).transpose(1, 2)\nh = F.glu(self.pointwise1(h), dim=1)\nh = @act[self.depthwise(h)]\n"
            "return x + self.pointwise2(h).transpose(1, 2)"
        ),
        "norm conv1d_pointwise glu conv1d_depthwise act conv1d_pointwise add",
        options=(("kernel_size", (7, 15, 31)),),
    ),
    BlockTemplate(
        "gru_block",
        "sequence",
        "self.norm = @norm[dim]\nself.gru = nn.GRU(dim, dim, batch_first=True)\nself.proj = nn.Linear(dim, dim)",
        "h, _ = self.gru(self.norm(x))\nreturn x + self.proj(@act[h])",
        "norm gru linear act add",
    ),
    BlockTemplate(
        "expert_mixture",
        "sequence",
        (
            "self.router = nn.Linear(dim, num_experts, bias=False)\n"
            "self.up = nn.Parameter(torch.randn(num_experts, dim, hidden) * dim ** -0.5)\n"
            "self.down = nn.Parameter(torch.randn(num_experts, hidden, dim) * hidden ** -0.5)"
        ),
        (
            "weights = torch.softmax(self.router(x), dim=-1)\nh = @act[torch.einsum('bsd,edh->ebsh', x, self.up)]\n"
            "y = torch.einsum('ebsh,ehd->ebsd', h, self.down)\nreturn torch.einsum('ebsd,bse->bsd', y, weights)"
        ),
        "linear softmax batched_linear batched_linear act weighted_sum",
        options=(("num_experts", (2, 4)), ("hidden", (64, 128, 256))),
    ),
    BlockTemplate(
        "retention",
        "sequence",
        (
            "self.qkv = nn.Linear(dim, 3 * dim, bias=False)\nself.gate = nn.Linear(dim, dim)\n"
            "self.norm = @norm[dim]\nself.decay = decay / 100"
        ),
        (
            "n = x.size(1)\nq, k, v = self.qkv(x).chunk(3, dim=-1)\ni = torch.arange(n, device=x.device)\n"
            "d = torch.where(i[:, None] >= i[None, :], self.decay ** (i[:, None] - i[None, :]).clamp(min=0).to(x.dtype), "
            "torch.zeros((), device=x.device, dtype=x.dtype))\n"
            "h = (q @ k.transpose(1, 2) * x.size(-1) ** -0.5 * d) @ v\n"
            "return torch.sigmoid(self.gate(x)) * self.norm(h)"
        ),
        "linear linear norm bmm bmm sigmoid multiply",
        options=(("decay", (80, 90, 95)),),
    ),
)

ROW_BLOCKS = (
    BlockTemplate(
        "residual_mlp",
        "rows",
        ("self.norm = @norm[features]\nself.fc1 = nn.Linear(features, hidden)\nself.fc2 = nn.Linear(hidden, features)"),
        "return x + self.fc2(@act[self.fc1(self.norm(x))])",
        "norm linear linear act add",
        options=(("hidden", (128, 256, 512, 1024)),),
    ),
    BlockTemplate(
        "highway",
        "rows",
        "self.transform = nn.Linear(features, features)\nself.gate = nn.Linear(features, features)",
        "t = torch.sigmoid(self.gate(x))\nreturn t * @act[self.transform(x)] + (1 - t) * x",
        "linear linear sigmoid act multiply lerp",
    ),
    BlockTemplate(
        "cross_layer",
        "rows",
        "self.weight = nn.Linear(features, features)\nself.norm = @norm[features]",
        "return self.norm(x * self.weight(x) + x)",
        "linear multiply add norm",
    ),
    BlockTemplate(
        "bottleneck_adapter",
        "rows",
        ("self.down = nn.Linear(features, rank)\nself.up = nn.Linear(rank, features)\nself.norm = @norm[features]"),
        "return self.norm(x + self.up(@act[self.down(x)]))",
        "linear linear act add norm",
        options=(("rank", (16, 32, 64)),),
    ),
    BlockTemplate(
        "glu_layer",
        "rows",
        "self.proj = nn.Linear(features, 2 * features)\nself.norm = @norm[features]",
        "value, gate = self.proj(self.norm(x)).chunk(2, dim=-1)\nreturn x + value * torch.sigmoid(gate)",
        "linear norm glu add",
    ),
)

BLOCKS = (*IMAGE_BLOCKS, *SEQUENCE_BLOCKS, *ROW_BLOCKS)
