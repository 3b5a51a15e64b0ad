"""Attention: fused, written out, causal, with a bias, over many heads, across two sequences, and its relatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, forms, roles
from bottega.tasks.synth.value import Shape, Table, Value

ALONE = roles("alone")


def _heads(draw: Draw) -> Shape:
    return (
        draw.named("batch_size", draw.batch),
        draw.size("num_heads", 2, 16),
        draw.size("seq_len", 48, 256 * draw.target.sizes * draw.shrink),
        draw.size("head_dim", 16, 96, 8),
    )


def _sequence(draw: Draw) -> Shape:
    width = draw.pick((2, 4, 8)) * draw.pick((16, 32, 64))
    return (
        draw.named("batch_size", draw.batch),
        draw.size("seq_len", 32, 192 * draw.target.sizes * draw.shrink),
        draw.named("embed_dim", width),
    )


def _weighted(s: OperatorUse) -> Table:
    keys = s.shape[-2]
    result: Table = s.table[::-1] * min(1.0, 2.0 * keys**-0.5)
    return result


def _work(s: OperatorUse, out: Value) -> OperatorCost:
    scores = s.x.numel // s.shape[-1] * s.shape[-2]
    return OperatorCost(4.0 * s.x.bytes + 16.0 * scores, 4.0 * scores * s.shape[-1], "matmul", 3)


def _written_out(s: OperatorUse, out: Value) -> OperatorCost:
    scores = s.x.numel // s.shape[-1] * s.shape[-2]
    return OperatorCost(4.0 * s.x.bytes + 40.0 * scores, 4.0 * scores * s.shape[-1] + 60.0 * scores, "matmul", 5)


def _same(s: OperatorUse) -> Shape:
    return s.shape


def attention(
    name: str,
    text: str,
    words: str,
    *,
    others: tuple[Operand, ...] | None = None,
    work: Any = _written_out,
    often: float = 1.0,
    **more: Any,
) -> Operator:
    return Operator(
        name,
        "attention",
        forms(text),
        words,
        ("heads",),
        more.pop("parameters", {}),
        others or (Operand("key", _same), Operand("value", _same)),
        law=_weighted,
        work=work,
        first=_heads,
        roles=ALONE,
        often=often,
        contents="normal",
        **more,
    )


def _projected(s: OperatorUse, out: Value) -> OperatorCost:
    width, length = s.shape[-1], s.shape[-2]
    tokens = s.x.numel // width
    return OperatorCost(12.0 * s.x.bytes, 8.0 * tokens * width * width + 4.0 * tokens * length * width, "matmul", 10)


def _module(
    name: str, forms_: tuple[Form, ...], words: str, *, others: tuple[Operand, ...] = (), often: float = 1.0, **parameters: Any
) -> Operator:
    return Operator(
        name,
        "attention",
        forms_,
        words,
        ("sequence",),
        {
            "embed_dim": lambda s: s.shape[-1],
            "num_heads": lambda s: s.draw.pick([n for n in (2, 4, 8) if s.shape[-1] % n == 0 and s.shape[-1] // n >= 8] or [1]),
            **parameters,
        },
        others,
        law=lambda s: s.table * 0.2,
        work=_projected,
        first=_sequence,
        roles=ALONE,
        often=often,
        contents="normal",
        dtypes=("float32",),
    )


_QKV = (("qkv", "nn.Linear({embed_dim}, 3 * {embed_dim})"), ("proj", "nn.Linear({embed_dim}, {embed_dim})"))
_SPLIT = (
    "{=b}, {=n}, {=c} = {x}.shape\n"
    "{=q}, {=k}, {=v} = {@qkv}({x}).reshape({=b}, {=n}, 3, {num_heads}, {=c} // {num_heads}).permute(2, 0, 3, 1, 4)\n"
    ""
)
_JOIN = "{=y} = {=y}.transpose(1, 2).reshape({=b}, {=n}, {=c})\n{@proj}({=y})"

_ENTRIES = (
    attention("sdpa", "F.scaled_dot_product_attention({x}, {y}, {z})", "scaled dot-product attention", work=_work, often=1.5),
    attention(
        "sdpa_causal",
        "F.scaled_dot_product_attention({x}, {y}, {z}, is_causal=True)",
        "causal scaled dot-product attention",
        work=_work,
    ),
    attention(
        "sdpa_bias",
        "F.scaled_dot_product_attention({x}, {y}, {z}, attn_mask={w})",
        "attention with an additive bias",
        others=(
            Operand("key", _same),
            Operand("value", _same),
            Operand("bias", lambda s: (s.shape[1], s.shape[2], s.shape[2])),
        ),
        work=_work,
        often=0.7,
    ),
    attention(
        "attention",
        (
            "{=scores} = torch.matmul({x}, {y}.transpose(-2, -1)) / math.sqrt({x}.size(-1))\n"
            "{=weights} = torch.softmax({=scores}, dim=-1)\ntorch.matmul({=weights}, {z}) | "
            "{=attn} = ({x} @ {y}.transpose(-1, -2)) * {x}.shape[-1] ** -0.5\n"
            "{=attn} = {=attn}.softmax(dim=-1)\n{=attn} @ {z} | "
            "{=scores} = torch.einsum('bhqd,bhkd->bhqk', {x}, {y}) / {x}.shape[-1] ** 0.5\n"
            "torch.einsum('bhqk,bhkd->bhqd', F.softmax({=scores}, dim=-1), {z})"
        ),
        "attention, written out",
        often=1.5,
    ),
    attention(
        "attention_causal",
        (
            "{=scores} = {x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1))\n"
            "{=mask} = torch.triu(torch.ones({x}.size(-2), {x}.size(-2), dtype=torch.bool, device={x}.device), diagonal=1)\n"
            "{=scores} = {=scores}.masked_fill({=mask}, float('-inf'))\n"
            "torch.softmax({=scores}, dim=-1) @ {z}"
        ),
        "causal attention, written out",
        dtypes=("float32",),
    ),
    attention(
        "attention_softcap",
        (
            "{=scores} = {x} @ {y}.transpose(-2, -1) * {scale}\n"
            "{=scores} = {cap} * torch.tanh({=scores} / {cap})\ntorch.softmax({=scores}, dim=-1) @ {z}"
        ),
        "attention with capped scores",
        parameters={"cap": (5.0, 10.0, 20.0), "scale": (0.125, 0.25)},
        often=0.6,
    ),
    attention(
        "attention_relu",
        "{=scores} = torch.relu({x} @ {y}.transpose(-2, -1)) / {x}.size(-2)\n{=scores} @ {z}",
        "attention with ReLU in place of softmax",
        often=0.5,
    ),
    attention(
        "attention_sigmoid",
        (
            "{=weights} = torch.sigmoid(torch.matmul({x}, {y}.transpose(-2, -1)) * {scale})\n"
            "torch.matmul({=weights}, {z}) / {x}.size(-2)"
        ),
        "attention with sigmoid weights",
        parameters={"scale": (0.125, 0.25)},
        often=0.4,
    ),
    attention(
        "linear_attention",
        (
            "{=q} = F.elu({x}) + 1\n{=k} = F.elu({y}) + 1\n{=kv} = {=k}.transpose(-2, -1) @ {z}\n"
            "{=norm} = {=q} @ {=k}.sum(dim=-2).unsqueeze(-1)\n({=q} @ {=kv}) / {=norm} | "
            "{=q} = torch.softmax({x}, dim=-1)\n{=k} = torch.softmax({y}, dim=-2)\n"
            "{=q} @ ({=k}.transpose(-2, -1) @ {z})"
        ),
        "linear attention",
        dtypes=("float32",),
        work=lambda s, out: OperatorCost(16.0 * s.x.bytes, 4.0 * s.x.numel * s.shape[-1], "matmul", 8),
    ),
    attention(
        "attention_alibi",
        (
            "{=n} = {x}.size(-2)\n"
            "{=distance} = torch.arange({=n}, device={x}.device)[None, :] - torch.arange({=n}, device={x}.device)[:, None]\n"
            "{=scores} = {x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1)) - {slope} * {=distance}.abs()\n"
            "torch.softmax({=scores}, dim=-1) @ {z}"
        ),
        "attention with a linear distance penalty",
        parameters={"slope": (0.05, 0.1, 0.25)},
        often=0.6,
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
        "attention within a sliding window",
        parameters={"window": (8, 16, 32)},
        often=0.6,
        dtypes=("float32",),
    ),
    attention(
        "attention_grouped",
        (
            "{=k} = {y}.repeat_interleave({repeats}, dim=1)\n{=v} = {z}.repeat_interleave({repeats}, dim=1)\n"
            "F.scaled_dot_product_attention({x}, {=k}, {=v})"
        ),
        "grouped-query attention",
        parameters={"repeats": lambda s: s.draw.pick([n for n in (2, 4, 8) if s.shape[1] % n == 0] or [1])},
        others=(
            Operand("key", lambda s: (s.shape[0], s.shape[1] // s.p["repeats"], *s.shape[2:])),
            Operand("value", lambda s: (s.shape[0], s.shape[1] // s.p["repeats"], *s.shape[2:])),
        ),
        work=_work,
        literal=frozenset({"repeats"}),
    ),
    attention(
        "attention_cross",
        (
            "F.scaled_dot_product_attention({x}, {y}, {z}) | "
            "torch.softmax({x} @ {y}.transpose(-2, -1) / math.sqrt({x}.size(-1)), dim=-1) @ {z}"
        ),
        "attention to another sequence",
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
        "rotary position embedding",
        ("heads",),
        {},
        (Operand("cos", lambda s: s.shape[2:], "signed"), Operand("sin", lambda s: s.shape[2:], "signed")),
        shape=lambda s: s.shape if s.shape[-1] % 2 == 0 else None,
        law=lambda s: s.table * 0.8,
        work=lambda s, out: OperatorCost(10 * s.x.bytes, 6.0 * s.x.numel, launches=6),
        first=_heads,
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
        "multi-head self-attention",
        often=1.2,
    ),
    _module(
        "self_attention_causal",
        (Form(_SPLIT + "{=y} = F.scaled_dot_product_attention({=q}, {=k}, {=v}, is_causal=True)\n" + _JOIN, _QKV),),
        "causal multi-head self-attention",
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
        "torch's multi-head attention",
    ),
    _module(
        "cross_attention",
        (
            Form(
                "{@attn}({x}, {y}, {y}, need_weights=False)[0]",
                (("attn", "nn.MultiheadAttention({embed_dim}, {num_heads}, batch_first=True)"),),
            ),
        ),
        "multi-head cross-attention",
        others=(Operand("memory", lambda s: (s.shape[0], s.draw.named("memory_len", s.draw.length(16, 128)), s.shape[2])),),
        often=0.7,
    ),
    _module(
        "attention_pooling",
        (
            Form(
                ("{=scores} = {@score}({x})\n{=weights} = torch.softmax({=scores}, dim=1)\n({=weights} * {x}).sum(dim=1)"),
                (("score", "nn.Linear({embed_dim}, 1, bias=False)"),),
            ),
            Form(
                "{=weights} = F.softmax({x} @ {@query}, dim=1)\ntorch.einsum('bn,bnd->bd', {=weights}, {x})",
                (("query", "nn.Parameter(torch.randn({embed_dim}) * {embed_dim} ** -0.5)"),),
            ),
        ),
        "attention pooling",
        often=0.7,
    ),
)


def _pooled(entry: Operator) -> Operator:
    return replace(
        entry,
        shape=lambda s: (s.shape[0], s.shape[2]),
        layout="rows",
        law=lambda s: s.table * s.shape[1] ** -0.5,
        work=lambda s, out: OperatorCost(4 * s.x.bytes, 4.0 * s.x.numel, launches=5),
    )


ATTENTION: tuple[Operator, ...] = tuple(_pooled(entry) if entry.name == "attention_pooling" else entry for entry in _ENTRIES)
