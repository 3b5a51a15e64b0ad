"""Matrix products in every shape: square, tall, batched, transposed, structured, as layers, as einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.tasks.synth.draw import Draw, rounded
from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Shape, mixed, product

ALONE = roles("alone")
HEAD = roles("alone head")


def _wide(name: str, low: int = 32, high: int = 1024) -> Callable[[OperatorUse], int]:
    return lambda s: s.draw.size(name, low, high * s.draw.shrink * s.draw.target.sizes**1.5)


def _square(draw: Draw) -> Shape:
    size = draw.named("n", max(16, min(8192, rounded(16.0 * draw.lead, draw.flavour))))
    return (size, size)


def _tall(draw: Draw) -> Shape:
    return (draw.named("rows", max(64, 32 * draw.lead)), draw.size("inner", 16, 96))


def _flat(draw: Draw) -> Shape:
    return (draw.size("rows", 16, 64), draw.named("inner", max(256, 32 * draw.lead)))


def _batch(draw: Draw) -> Shape:
    big = 192 * draw.target.sizes * draw.shrink
    return (draw.named("batch_size", draw.batch), draw.size("m", 24 * max(1.0, draw.shrink), big), draw.size("k", 24, big))


def _matrix(draw: Draw) -> Shape:
    return (draw.named("m", max(8, draw.lead)), draw.size("k", 64, 768 * draw.target.sizes**1.5 * draw.shrink))


def matmul(
    name: str,
    text: str,
    other: Operand,
    depth: Callable[[OperatorUse], float],
    first: Callable[[Draw], Shape],
    **more: Any,
) -> Operator:
    more.setdefault("law", lambda s: product(s.table, s.others[0].typical, int(depth(s)), s.draw.rng))
    return Operator(name, "matmul", forms(text), ("matrix",), others=(other,), first=first, **{"roles": ALONE} | more)


def _inner(s: OperatorUse) -> int:
    return s.shape[-1]


def _n(s: OperatorUse) -> int:
    return s.draw.size("n", 48, 768 * s.draw.target.sizes**1.5 * s.draw.shrink)


def linear(
    name: str,
    call: str,
    make: tuple[tuple[str, str], ...],
    layouts: tuple[str, ...] = ("rows", "sequence"),
    *,
    bias: bool = True,
    gain: float = 3**-0.5,
    often: float = 1.0,
    **more: Any,
) -> Operator:
    return Operator(
        name,
        "matmul",
        (Form(call, make), *more.pop("further", ())),
        layouts,
        {"in_features": _inner, "out_features": _wide("out_features"), **more.pop("parameters", {})},
        law=lambda s: mixed(s.table, s.shape[-1], s.draw.rng, gain, bias),
        roles=HEAD,
        often=often,
        **more,
    )


_LINEAR = ("linear", "nn.Linear({in_features}, {out_features}{, bias=True})")
_WEIGHT = ("weight", "nn.Parameter(torch.randn({out_features}, {in_features}) * {in_features} ** -0.5)")
_WEIGHT_T = ("weight", "nn.Parameter(torch.randn({in_features}, {out_features}) / math.sqrt({in_features}))")
_BIAS = ("bias", "nn.Parameter(torch.randn({out_features}) * 0.1)")

MATMUL = (
    linear(
        "linear",
        "{@linear}({x})",
        (_LINEAR,),
        often=6.0,
        parameters={"bias": (True, True, True, False)},
        literal=frozenset({"bias"}),
    ),
    linear(
        "linear_functional",
        "F.linear({x}, {@weight}, {@bias})",
        (_WEIGHT, _BIAS),
        gain=1.0,
        often=1.5,
        further=(
            Form("{x} @ {@weight} + {@bias}", (_WEIGHT_T, _BIAS)),
            Form("torch.addmm({@bias}, {x}, {@weight})", (_WEIGHT_T, _BIAS)),
        ),
        layouts=("rows",),
    ),
    linear(
        "matmul_weight",
        "torch.matmul({x}, {@weight})",
        (_WEIGHT_T,),
        gain=1.0,
        bias=False,
        often=2.0,
        further=(
            Form("{x} @ {@weight}", (_WEIGHT_T,)),
            Form("{x} @ {@weight}.t()", (_WEIGHT,)),
            Form("F.linear({x}, {@weight})", (_WEIGHT,)),
            Form("torch.matmul({x}, {@weight}.T)", (_WEIGHT,)),
        ),
    ),
    linear(
        "low_rank_linear",
        "{@up}({@down}({x}))",
        (("down", "nn.Linear({in_features}, {rank}, bias=False)"), ("up", "nn.Linear({rank}, {out_features})")),
        gain=1 / 3,
        parameters={"rank": (8, 16, 32, 64)},
    ),
    linear("batched_linear", "torch.einsum('bsd,df->bsf', {x}, {@weight})", (_WEIGHT_T,), ("sequence",), gain=1.0, bias=False),
    Operator(
        "grouped_linear",
        "matmul",
        (
            form(
                'torch.einsum("bhsd,hde->bhse", {x}, {@weight})',
                ("weight", "nn.Parameter(torch.randn({num_heads}, {head_dim}, {out_dim}) * {head_dim} ** -0.5)"),
            ),
            form(
                "torch.matmul({x}, {@weight})",
                ("weight", "nn.Parameter(torch.randn({num_heads}, {head_dim}, {out_dim}) / {head_dim} ** 0.5)"),
            ),
        ),
        ("heads",),
        {"num_heads": lambda s: s.shape[1], "head_dim": _inner, "out_dim": lambda s: s.draw.size("out_dim", 16, 128)},
        law=lambda s: mixed(s.table, _inner(s), s.draw.rng, 1.0, False),
        roles=HEAD,
    ),
    matmul(
        "matmul_square",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y}) | {x}.matmul({y})",
        Operand("B", lambda s: s.shape),
        _inner,
        _square,
    ),
    matmul(
        "matmul",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})",
        Operand("B", lambda s: (s.shape[1], _n(s))),
        _inner,
        _matrix,
        often=2.0,
    ),
    matmul(
        "matmul_transposed_a",
        "torch.matmul({x}.T, {y}) | {x}.t() @ {y} | torch.mm({x}.t(), {y})",
        Operand("B", lambda s: (s.shape[0], _n(s))),
        lambda s: s.shape[0],
        lambda d: (d.size("k", 64, 768 * d.target.sizes**1.5 * d.shrink), d.named("m", max(8, d.lead))),
    ),
    matmul(
        "matmul_transposed_b",
        "torch.matmul({x}, {y}.T) | {x} @ {y}.t() | torch.mm({x}, {y}.t())",
        Operand("B", lambda s: (_n(s), s.shape[1])),
        _inner,
        _matrix,
    ),
    matmul(
        "matmul_transposed_both",
        "torch.matmul({x}.T, {y}.T) | {x}.t() @ {y}.t()",
        Operand("B", lambda s: (_n(s), s.shape[0])),
        lambda s: s.shape[0],
        lambda d: (d.size("k", 64, 768 * d.target.sizes**1.5 * d.shrink), d.named("m", max(8, d.lead))),
    ),
    matmul(
        "matmul_tall_skinny",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})",
        Operand("B", lambda s: (s.shape[1], s.draw.size("cols", 32, 512))),
        _inner,
        _tall,
    ),
    matmul(
        "matmul_deep",
        "torch.matmul({x}, {y}) | {x} @ {y}",
        Operand("B", lambda s: (s.shape[1], s.draw.size("cols", 16, 64))),
        _inner,
        _flat,
    ),
    matmul(
        "matrix_vector",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mv({x}, {y})",
        Operand("v", lambda s: (s.shape[1],)),
        _inner,
        lambda d: (d.named("rows", max(16, d.lead)), d.size("cols", 256, 8192)),
    ),
    matmul(
        "bmm",
        "torch.bmm({x}, {y}) | {x} @ {y} | torch.matmul({x}, {y}) | torch.einsum('bij,bjk->bik', {x}, {y})",
        Operand("B", lambda s: (s.shape[0], s.shape[2], s.draw.size("n", 24, 192 * s.draw.target.sizes))),
        _inner,
        _batch,
        often=1.8,
    ),
    matmul(
        "bmm_transposed",
        (
            "torch.bmm({x}, {y}.transpose(1, 2)) | torch.matmul({x}, {y}.transpose(-2, -1)) | "
            "torch.einsum('bid,bjd->bij', {x}, {y}) | {x} @ {y}.mT"
        ),
        Operand("B", lambda s: (s.shape[0], s.draw.size("n", 24, 192 * s.draw.target.sizes), s.shape[2])),
        _inner,
        _batch,
    ),
    matmul(
        "matmul_3d_by_2d",
        ("torch.matmul({x}, {y}) | {x} @ {y} | torch.einsum('bmk,kn->bmn', {x}, {y}) | torch.tensordot({x}, {y}, dims=1)"),
        Operand("B", lambda s: (s.shape[2], s.draw.size("n", 24, 192 * s.draw.target.sizes))),
        _inner,
        _batch,
    ),
    matmul(
        "matmul_4d_by_2d",
        "torch.matmul({x}, {y}) | torch.einsum('bijl,lk->bijk', {x}, {y})",
        Operand("B", lambda s: (s.shape[3], s.draw.size("k", 16, 128))),
        _inner,
        lambda d: (d.named("batch_size", d.lead), d.size("i", 8, 48), d.size("j", 8, 48), d.size("l", 24, 128)),
    ),
    matmul(
        "einsum_bilinear",
        (
            "torch.einsum('bi,bj->bij', {x}, {y}) | {x}.unsqueeze(2) * {y}.unsqueeze(1) | "
            "torch.bmm({x}.unsqueeze(2), {y}.unsqueeze(1))"
        ),
        Operand("y", lambda s: (s.shape[0], s.draw.size("features2", 24, 128))),
        lambda s: 1,
        lambda d: (d.named("batch_size", d.lead), d.size("features1", 24, 128)),
    ),
    matmul(
        "einsum_contract",
        "torch.einsum('bid,bjd->bij', {x}, {y}).sum(dim=-1) | torch.einsum('bid,bjd->bi', {x}, {y})",
        Operand("y", lambda s: (s.shape[0], s.draw.size("n", 24, 96), s.shape[2])),
        lambda s: s.shape[2] * s.others[0].shape[1],
        _batch,
    ),
    matmul(
        "outer",
        "torch.outer({x}, {y}) | {x}[:, None] * {y}[None, :] | {x}.unsqueeze(1) @ {y}.unsqueeze(0)",
        Operand("y", lambda s: (s.draw.size("m", 256, 4096),)),
        lambda s: 1,
        lambda d: (d.named("n", max(32, d.lead)),),
    ),
    matmul(
        "batched_inner",
        "torch.sum({x} * {y}, dim=-1) | torch.einsum('bd,bd->b', {x}, {y}) | ({x} * {y}).sum(-1)",
        Operand("y", lambda s: s.shape),
        _inner,
        lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 128, 2048)),
    ),
    matmul(
        "matmul_upper",
        ("torch.triu(torch.matmul({x}, {y})) | torch.matmul(torch.triu({x}), torch.triu({y})) | torch.triu({x}) @ {y}"),
        Operand("B", lambda s: s.shape),
        _inner,
        _square,
    ),
    matmul(
        "matmul_lower",
        ("torch.tril(torch.matmul({x}, {y})) | torch.matmul(torch.tril({x}), torch.tril({y})) | torch.tril({x}) @ {y}"),
        Operand("B", lambda s: s.shape),
        _inner,
        _square,
    ),
    matmul(
        "matmul_symmetric",
        "torch.matmul(0.5 * ({x} + {x}.T), {y}) | ({x} + {x}.t()) @ {y}",
        Operand("B", lambda s: s.shape),
        _inner,
        _square,
    ),
    matmul(
        "diagonal_matmul",
        "torch.diag({x}) @ {y} | {x}.unsqueeze(1) * {y} | torch.matmul(torch.diag({x}), {y})",
        Operand("B", lambda s: (s.shape[0], s.draw.size("m", 128, 1024))),
        lambda s: s.shape[0] / 2,
        lambda d: (d.named("n", max(32, min(4096, d.lead * 8))),),
        law=lambda s: s.table * s.others[0].typical,
    ),
    Operator(
        "gemm_affine",
        "matmul",
        forms(
            "torch.addmm({z}, {x}, {y}, beta={beta}, alpha={alpha}) | {alpha} * ({x} @ {y}) + {beta} * {z} | "
            "{alpha} * torch.matmul({x}, {y}) + {beta} * {z}"
        ),
        ("matrix",),
        {"alpha": (0.5, 1.5, 2.0), "beta": (0.5, 0.75, 1.5)},
        others=(Operand("B", lambda s: (s.shape[1], _n(s))), Operand("C", lambda s: (s.shape[0], s.others[0].shape[1]))),
        first=_matrix,
        law=lambda s: s.p["alpha"] * product(s.table, s.others[0].typical, _inner(s), s.draw.rng) + s.others[1].typical,
        roles=ALONE,
    ),
    Operator(
        "baddbmm",
        "matmul",
        forms("torch.baddbmm({z}, {x}, {y}) | torch.bmm({x}, {y}) + {z}"),
        ("matrix",),
        {},
        others=(
            Operand("B", lambda s: (s.shape[0], s.shape[2], s.draw.size("n", 24, 192))),
            Operand("C", lambda s: (*s.shape[:2], s.others[0].shape[2])),
        ),
        first=_batch,
        law=lambda s: product(s.table, s.others[0].typical, _inner(s), s.draw.rng) + s.others[1].typical,
        roles=ALONE,
    ),
    Operator(
        "gram",
        "matmul",
        forms("torch.bmm({x}, {x}.transpose(1, 2)) | {x} @ {x}.transpose(-1, -2) | torch.einsum('bcd,bed->bce', {x}, {x})"),
        ("sequence", "ncl"),
        {},
        roles=ALONE,
        law=lambda s: product(s.table, s.table[::-1], s.shape[-1], s.draw.rng),
    ),
    Operator(
        "bilinear",
        "matmul",
        (Form("{@bilinear}({x}, {y})", (("bilinear", "nn.Bilinear({in1_features}, {in2_features}, {out_features})"),)),),
        ("rows",),
        {
            "in1_features": _inner,
            "in2_features": lambda s: s.others[0].shape[-1],
            "out_features": lambda s: s.draw.size("out_features", 8, 64),
        },
        others=(Operand("y", lambda s: (s.shape[0], s.draw.size("in2_features", 16, 64))),),
        first=lambda d: (d.named("batch_size", d.lead), d.size("in1_features", 16, 64)),
        law=lambda s: product(s.table, s.others[0].typical, s.others[0].shape[-1], s.draw.rng) * 0.58,
        roles=ALONE,
        dtypes=("float32",),
    ),
    Operator(
        "matmul_chain",
        "matmul",
        forms("torch.matmul(torch.matmul({x}, {y}), {z}) | {x} @ {y} @ {z}"),
        ("matrix",),
        {},
        others=(
            Operand("B", lambda s: (s.shape[1], s.draw.size("n", 48, 512)), "weights"),
            Operand("C", lambda s: (s.others[0].shape[1], s.draw.size("p", 48, 512)), "weights"),
        ),
        first=_matrix,
        law=lambda s: product(
            product(s.table, s.others[0].typical, _inner(s), s.draw.rng), s.others[1].typical, s.others[0].shape[1], s.draw.rng
        ),
        roles=ALONE,
    ),
    Operator(
        "cdist",
        "matmul",
        forms("torch.cdist({x}, {y}) | torch.cdist({x}, {y}, p=2.0)"),
        ("matrix",),
        {},
        others=(Operand("y", lambda s: (s.draw.size("m", 64, 1024), s.shape[1])),),
        first=lambda d: (d.named("n", max(32, d.lead * 4)), d.size("dim", 16, 96)),
        law=lambda s: abs(product(s.table - s.others[0].typical, s.table - s.others[0].typical, s.shape[1], s.draw.rng)) ** 0.5,
        roles=ALONE,
        dtypes=("float32",),
    ),
    Operator(
        "cosine_matrix",
        "matmul",
        forms(
            "F.normalize({x}, dim=-1) @ F.normalize({y}, dim=-1).T | "
            "torch.matmul(F.normalize({x}, dim=1), F.normalize({y}, dim=1).t())"
        ),
        ("matrix",),
        {},
        others=(Operand("y", lambda s: (s.draw.size("m", 64, 1024), s.shape[1])),),
        first=lambda d: (d.named("n", max(32, d.lead * 4)), d.size("dim", 32, 512)),
        law=lambda s: product(s.table, s.others[0].typical, s.shape[1], s.draw.rng) / s.shape[1],
        roles=ALONE,
    ),
)
