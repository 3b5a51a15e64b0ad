"""Attention: fused, written out, causal, with a bias, over many heads, across two sequences, and its relatives."""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, first, forms, roles
from bottega.tasks.synth.value import Shape

ALONE = roles("alone")
HEADS = first("batch_size@1 num_heads:2-8 seq_len:48-256 head_dim:16-48")


def _sequence(draw: Draw) -> Shape:
    draw.named("embed_dim", draw.pick((2, 4, 8)) * draw.pick((16, 32, 64)))
    return draw.lengths("batch_size@1 seq_len:32-192 embed_dim", draw.names)


def _same(s: OperatorUse) -> Shape:
    return s.shape


def attention(name: str, text: str, *, others: tuple[Operand, ...] | None = None, **more: Any) -> Operator:
    """Over heads; the values are weighted means of normal ones."""
    others = others or (Operand("key", _same), Operand("value", _same))
    given: dict[str, Any] = {"first": HEADS, "roles": ALONE, "contents": "normal"} | more
    return Operator(name, "attention", forms(text), ("heads",), others=others, **given)


def _divided(s: OperatorUse) -> int:
    return s.draw.pick([n for n in (2, 4, 8) if s.shape[-1] % n == 0 and s.shape[-1] // n >= 8] or [1])


def _module(name: str, made: tuple[Form, ...], others: tuple[Operand, ...] = ()) -> Operator:
    """Over sequences, with layers of its own."""
    sizes = {"embed_dim": lambda s: s.shape[-1], "num_heads": _divided}
    given: dict[str, Any] = {"first": _sequence, "roles": ALONE, "contents": "normal", "dtypes": ("float32",)}
    return Operator(name, "attention", made, ("sequence",), sizes, others, **given)


_QKV = (("qkv", "nn.Linear({embed_dim}, 3 * {embed_dim})"), ("proj", "nn.Linear({embed_dim}, {embed_dim})"))
_SPLIT = (
    "{=b}, {=n}, {=c} = {x}.shape\n"
    "{=q}, {=k}, {=v} = {@qkv}({x}).reshape({=b}, {=n}, 3, {num_heads}, {=c} // {num_heads}).permute(2, 0, 3, 1, 4)\n"
    ""
)
_JOIN = "{=y} = {=y}.transpose(1, 2).reshape({=b}, {=n}, {=c})\n{@proj}({=y})"

ATTENTION = (
    attention("sdpa", "F.scaled_dot_product_attention({x}, {y}, {z})", often=1.5),
    attention("sdpa_causal", "F.scaled_dot_product_attention({x}, {y}, {z}, is_causal=True)"),
    attention(
        "sdpa_bias",
        "F.scaled_dot_product_attention({x}, {y}, {z}, attn_mask={w})",
        others=(
            Operand("key", _same),
            Operand("value", _same),
            Operand("bias", lambda s: (s.shape[1], s.shape[2], s.shape[2])),
        ),
    ),
    attention(
        "attention",
        (
            "{=scores} = torch.matmul({x}, {y}.transpose(-2, -1)) / math.sqrt({x}.size(-1))\n"
            "{=weights} = torch.softmax({=scores}, dim=-1)\ntorch.matmul({=weights}, {z}) | "
            "{=attn} = ({x} @ {y}.transpose(-1, -2)) * {x}.shape[-1] ** -0.5\n{=attn} = {=attn}.softmax(dim=-1)\n"
            "{=attn} @ {z} | {=scores} = torch.einsum('bhqd,bhkd->bhqk', {x}, {y}) / {x}.shape[-1] ** 0.5\n"
            "torch.einsum('bhqk,bhkd->bhqd', F.softmax({=scores}, dim=-1), {z})"
        ),
        often=1.5,
    ),
    attention(
        "attention_causal",
        (
            "{=scores} = {x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1))\n"
            "{=mask} = torch.triu(torch.ones({x}.size(-2), {x}.size(-2), dtype=torch.bool, device={x}.device), diagonal=1)\n"
            "{=scores} = {=scores}.masked_fill({=mask}, float('-inf'))\ntorch.softmax({=scores}, dim=-1) @ {z}"
        ),
        dtypes=("float32",),
    ),
    attention(
        "attention_softcap",
        (
            "{=scores} = {x} @ {y}.transpose(-2, -1) * {scale}\n{=scores} = {cap} * torch.tanh({=scores} / {cap})\n"
            "torch.softmax({=scores}, dim=-1) @ {z}"
        ),
        parameters={"cap": (5.0, 10.0, 20.0), "scale": (0.125, 0.25)},
    ),
    attention("attention_relu", "{=scores} = torch.relu({x} @ {y}.transpose(-2, -1)) / {x}.size(-2)\n{=scores} @ {z}"),
    attention(
        "attention_sigmoid",
        (
            "{=weights} = torch.sigmoid(torch.matmul({x}, {y}.transpose(-2, -1)) * {scale})\n"
            "torch.matmul({=weights}, {z}) / {x}.size(-2)"
        ),
        parameters={"scale": (0.125, 0.25)},
    ),
    attention(
        "linear_attention",
        (
            "{=q} = F.elu({x}) + 1\n{=k} = F.elu({y}) + 1\n{=kv} = {=k}.transpose(-2, -1) @ {z}\n"
            "{=norm} = {=q} @ {=k}.sum(dim=-2).unsqueeze(-1)\n({=q} @ {=kv}) / {=norm} | "
            "{=q} = torch.softmax({x}, dim=-1)\n{=k} = torch.softmax({y}, dim=-2)\n"
            "{=q} @ ({=k}.transpose(-2, -1) @ {z})"
        ),
        dtypes=("float32",),
    ),
    attention(
        "attention_alibi",
        (
            "{=n} = {x}.size(-2)\n"
            "{=distance} = torch.arange({=n}, device={x}.device)[None, :] - torch.arange({=n}, device={x}.device)[:, None]\n"
            "{=scores} = {x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1)) - {slope} * {=distance}.abs()\n"
            "torch.softmax({=scores}, dim=-1) @ {z}"
        ),
        parameters={"slope": (0.05, 0.1, 0.25)},
        dtypes=("float32",),
    ),
    attention(
        "attention_window",
        (
            "{=n} = {x}.size(-2)\n{=i} = torch.arange({=n}, device={x}.device)\n"
            "{=far} = ({=i}[:, None] - {=i}[None, :]).abs() > {window}\n"
            "{=scores} = ({x} @ {y}.transpose(-2, -1)) * {x}.size(-1) ** -0.5\n"
            "{=scores} = {=scores}.masked_fill({=far}, float('-inf'))\n{=scores}.softmax(dim=-1) @ {z}"
        ),
        parameters={"window": (8, 16, 32)},
        dtypes=("float32",),
    ),
    attention(
        "attention_grouped",
        (
            "{=k} = {y}.repeat_interleave({repeats}, dim=1)\n{=v} = {z}.repeat_interleave({repeats}, dim=1)\n"
            "F.scaled_dot_product_attention({x}, {=k}, {=v})"
        ),
        parameters={"repeats": lambda s: s.draw.pick([n for n in (2, 4, 8) if s.shape[1] % n == 0] or [1])},
        others=(
            Operand("key", lambda s: (s.shape[0], s.shape[1] // s.p["repeats"], *s.shape[2:])),
            Operand("value", lambda s: (s.shape[0], s.shape[1] // s.p["repeats"], *s.shape[2:])),
        ),
        literal=frozenset({"repeats"}),
    ),
    attention(
        "attention_cross",
        (
            "F.scaled_dot_product_attention({x}, {y}, {z}) | "
            "torch.softmax({x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1)), dim=-1) @ {z}"
        ),
        others=(
            Operand("key", lambda s: (*s.shape[:2], s.draw.named("memory_len", s.draw.length(16, 128)), s.shape[3])),
            Operand("value", lambda s: s.others[0].shape),
        ),
    ),
    Operator(
        "rotary",
        "attention",
        (
            Form(
                "{=x1}, {=x2} = {x}.chunk(2, dim=-1)\n{=rotated} = torch.cat((-{=x2}, {=x1}), dim=-1)\n"
                "{x} * {y} + {=rotated} * {z}"
            ),
            Form(
                "{=x1}, {=x2} = {x}[..., ::2], {x}[..., 1::2]\n"
                "{=rotated} = torch.stack((-{=x2}, {=x1}), dim=-1).flatten(-2)\n{x} * {y} + {=rotated} * {z}"
            ),
        ),
        ("heads",),
        {},
        (Operand("cos", lambda s: s.shape[2:], "signed"), Operand("sin", lambda s: s.shape[2:], "signed")),
        when=lambda s: s.shape[-1] % 2 == 0,
        first=HEADS,
        roles=ALONE,
    ),
    _module(
        "self_attention",
        (
            Form(_SPLIT + "{=y} = F.scaled_dot_product_attention({=q}, {=k}, {=v})\n" + _JOIN, _QKV),
            Form(
                _SPLIT
                + (
                    "{=attn} = ({=q} @ {=k}.transpose(-2, -1)) * ({=c} // {num_heads}) ** -0.5\n"
                    "{=y} = {=attn}.softmax(dim=-1) @ {=v}\n"
                )
                + _JOIN,
                _QKV,
            ),
        ),
    ),
    _module(
        "self_attention_causal",
        (Form(_SPLIT + "{=y} = F.scaled_dot_product_attention({=q}, {=k}, {=v}, is_causal=True)\n" + _JOIN, _QKV),),
    ),
    _module(
        "multihead_attention",
        (
            Form("{@attn}({x}, {x}, {x})[0]", (("attn", "nn.MultiheadAttention({embed_dim}, {num_heads}, batch_first=True)"),)),
            Form(
                "{=out}, _ = {@attn}({x}, {x}, {x}, need_weights=False)\n{=out}",
                (("attn", "nn.MultiheadAttention({embed_dim}, {num_heads}, batch_first=True)"),),
            ),
        ),
    ),
    _module(
        "cross_attention",
        (
            Form(
                "{@attn}({x}, {y}, {y}, need_weights=False)[0]",
                (("attn", "nn.MultiheadAttention({embed_dim}, {num_heads}, batch_first=True)"),),
            ),
        ),
        others=(Operand("memory", lambda s: (s.shape[0], s.draw.named("memory_len", s.draw.length(16, 128)), s.shape[2])),),
    ),
    _module(
        "attention_pooling",
        (
            Form(
                "{=scores} = {@score}({x})\n{=weights} = torch.softmax({=scores}, dim=1)\n({=weights} * {x}).sum(dim=1)",
                (("score", "nn.Linear({embed_dim}, 1, bias=False)"),),
            ),
            Form(
                "{=weights} = F.softmax({x} @ {@query}, dim=1)\ntorch.einsum('bn,bnd->bd', {=weights}, {x})",
                (("query", "nn.Parameter(torch.randn({embed_dim}) * {embed_dim} ** -0.5)"),),
            ),
        ),
    ),
)
