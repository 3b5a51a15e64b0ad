"""Matrix products in every shape: square, tall, batched, transposed, structured, as layers, as einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw, rounded
from bottega.tasks.synth.operator import Form, Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import BYTES, Shape, Value, count, mixed, product

ALONE = roles("alone")
HEAD = roles("alone head")


def _gemm(depth: Callable[[OperatorUse], float], launches: int = 1) -> Callable[[OperatorUse, Value], OperatorCost]:
    def work(s: OperatorUse, out: Value) -> OperatorCost:
        moved = s.x.bytes + out.bytes + sum(other.bytes for other in s.others)
        return OperatorCost(moved, 2.0 * out.numel * depth(s), "matmul", launches)

    return work


def _layer(s: OperatorUse, out: Value) -> OperatorCost:
    width = s.shape[-1]
    return OperatorCost(s.x.bytes + out.bytes + width * out.shape[-1] * BYTES[s.x.dtype], 2.0 * out.numel * width, "matmul")


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
    words: str,
    other: Operand,
    shape: Callable[[OperatorUse], Shape | None],
    depth: Callable[[OperatorUse], float],
    first: Callable[[Draw], Shape],
    layout: str = "rows",
    **more: Any,
) -> Operator:
    return Operator(
        name,
        "matmul",
        forms(text),
        words,
        ("matrix",),
        {},
        others=(other,),
        shape=shape,
        layout=layout,
        first=first,
        work=_gemm(depth, more.pop("launches", 1)),
        law=more.pop("law", lambda s: product(s.table, s.others[0].typical, int(depth(s)), s.draw.rng)),
        roles=more.pop("roles", ALONE),
        **more,
    )


def _inner(s: OperatorUse) -> int:
    return s.shape[-1]


def _n(s: OperatorUse) -> int:
    return s.draw.size("n", 48, 768 * s.draw.target.sizes**1.5 * s.draw.shrink)


def linear(
    name: str,
    call: str,
    make: tuple[tuple[str, str], ...],
    words: str,
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
        words,
        layouts,
        {"in_features": _inner, "out_features": _wide("out_features"), **more.pop("parameters", {})},
        shape=lambda s: (*s.shape[:-1], s.p["out_features"]),
        layout=lambda s: s.x.layout,
        law=lambda s: mixed(s.table, s.shape[-1], s.draw.rng, gain, bias),
        work=more.pop("work", _layer),
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
        "linear layer",
        often=6.0,
        parameters={"bias": (True, True, True, False)},
        literal=frozenset({"bias"}),
    ),
    linear(
        "linear_functional",
        "F.linear({x}, {@weight}, {@bias})",
        (_WEIGHT, _BIAS),
        "linear layer with its own weights",
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
        "product with a weight matrix",
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
        "low-rank linear layer",
        gain=1 / 3,
        parameters={"rank": (8, 16, 32, 64)},
        often=0.6,
        work=lambda s, out: OperatorCost(s.x.bytes + out.bytes, 2.0 * (s.x.numel + out.numel) * s.p["rank"], "matmul", 2),
    ),
    linear(
        "batched_linear",
        "torch.einsum('bsd,df->bsf', {x}, {@weight})",
        (_WEIGHT_T,),
        "einsum with a weight matrix",
        ("sequence",),
        gain=1.0,
        bias=False,
        often=0.7,
    ),
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
        "one projection for each head",
        ("heads",),
        {"num_heads": lambda s: s.shape[1], "head_dim": _inner, "out_dim": lambda s: s.draw.size("out_dim", 16, 128)},
        shape=lambda s: (*s.shape[:-1], s.p["out_dim"]),
        layout="heads",
        law=lambda s: mixed(s.table, _inner(s), s.draw.rng, 1.0, False),
        work=_gemm(lambda s: s.shape[-1]),
        roles=HEAD,
        often=0.5,
    ),
    matmul(
        "matmul_square",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y}) | {x}.matmul({y})",
        "square matrix product",
        Operand("B", lambda s: s.shape),
        lambda s: s.shape,
        _inner,
        _square,
        often=1.2,
    ),
    matmul(
        "matmul",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})",
        "matrix product",
        Operand("B", lambda s: (s.shape[1], _n(s))),
        lambda s: (s.shape[0], s.others[0].shape[1]),
        _inner,
        _matrix,
        often=2.0,
    ),
    matmul(
        "matmul_transposed_a",
        "torch.matmul({x}.T, {y}) | {x}.t() @ {y} | torch.mm({x}.t(), {y})",
        "matrix product with the first operand transposed",
        Operand("B", lambda s: (s.shape[0], _n(s))),
        lambda s: (s.shape[1], s.others[0].shape[1]),
        lambda s: s.shape[0],
        lambda d: (d.size("k", 64, 768 * d.target.sizes**1.5 * d.shrink), d.named("m", max(8, d.lead))),
    ),
    matmul(
        "matmul_transposed_b",
        "torch.matmul({x}, {y}.T) | {x} @ {y}.t() | torch.mm({x}, {y}.t())",
        "matrix product with the second operand transposed",
        Operand("B", lambda s: (_n(s), s.shape[1])),
        lambda s: (s.shape[0], s.others[0].shape[0]),
        _inner,
        _matrix,
    ),
    matmul(
        "matmul_transposed_both",
        "torch.matmul({x}.T, {y}.T) | {x}.t() @ {y}.t()",
        "matrix product with both operands transposed",
        Operand("B", lambda s: (_n(s), s.shape[0])),
        lambda s: (s.shape[1], s.others[0].shape[0]),
        lambda s: s.shape[0],
        lambda d: (d.size("k", 64, 768 * d.target.sizes**1.5 * d.shrink), d.named("m", max(8, d.lead))),
    ),
    matmul(
        "matmul_tall_skinny",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})",
        "product of a tall and a flat matrix",
        Operand("B", lambda s: (s.shape[1], s.draw.size("cols", 32, 512))),
        lambda s: (s.shape[0], s.others[0].shape[1]),
        _inner,
        _tall,
    ),
    matmul(
        "matmul_deep",
        "torch.matmul({x}, {y}) | {x} @ {y}",
        "matrix product with a long inner axis",
        Operand("B", lambda s: (s.shape[1], s.draw.size("cols", 16, 64))),
        lambda s: (s.shape[0], s.others[0].shape[1]),
        _inner,
        _flat,
    ),
    matmul(
        "matrix_vector",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mv({x}, {y})",
        "matrix-vector product",
        Operand("v", lambda s: (s.shape[1],)),
        lambda s: (s.shape[0],),
        _inner,
        lambda d: (d.named("rows", max(16, d.lead)), d.size("cols", 256, 8192)),
        "vector",
    ),
    matmul(
        "bmm",
        "torch.bmm({x}, {y}) | {x} @ {y} | torch.matmul({x}, {y}) | torch.einsum('bij,bjk->bik', {x}, {y})",
        "batched matrix product",
        Operand("B", lambda s: (s.shape[0], s.shape[2], s.draw.size("n", 24, 192 * s.draw.target.sizes))),
        lambda s: (*s.shape[:2], s.others[0].shape[2]),
        _inner,
        _batch,
        "sequence",
        often=1.8,
    ),
    matmul(
        "bmm_transposed",
        (
            "torch.bmm({x}, {y}.transpose(1, 2)) | torch.matmul({x}, {y}.transpose(-2, -1)) | "
            "torch.einsum('bid,bjd->bij', {x}, {y}) | {x} @ {y}.mT"
        ),
        "batched product with the second operand transposed",
        Operand("B", lambda s: (s.shape[0], s.draw.size("n", 24, 192 * s.draw.target.sizes), s.shape[2])),
        lambda s: (*s.shape[:2], s.others[0].shape[1]),
        _inner,
        _batch,
        "sequence",
    ),
    matmul(
        "matmul_3d_by_2d",
        ("torch.matmul({x}, {y}) | {x} @ {y} | torch.einsum('bmk,kn->bmn', {x}, {y}) | torch.tensordot({x}, {y}, dims=1)"),
        "product of a batch with one matrix",
        Operand("B", lambda s: (s.shape[2], s.draw.size("n", 24, 192 * s.draw.target.sizes))),
        lambda s: (*s.shape[:2], s.others[0].shape[1]),
        _inner,
        _batch,
        "sequence",
    ),
    matmul(
        "matmul_4d_by_2d",
        "torch.matmul({x}, {y}) | torch.einsum('bijl,lk->bijk', {x}, {y})",
        "product of a 4D tensor with a matrix",
        Operand("B", lambda s: (s.shape[3], s.draw.size("k", 16, 128))),
        lambda s: (*s.shape[:3], s.others[0].shape[1]),
        _inner,
        lambda d: (d.named("batch_size", d.lead), d.size("i", 8, 48), d.size("j", 8, 48), d.size("l", 24, 128)),
        "heads",
        often=0.8,
    ),
    matmul(
        "einsum_bilinear",
        (
            "torch.einsum('bi,bj->bij', {x}, {y}) | {x}.unsqueeze(2) * {y}.unsqueeze(1) | "
            "torch.bmm({x}.unsqueeze(2), {y}.unsqueeze(1))"
        ),
        "outer product for each sample",
        Operand("y", lambda s: (s.shape[0], s.draw.size("features2", 24, 128))),
        lambda s: (s.shape[0], s.shape[1], s.others[0].shape[1]),
        lambda s: 1,
        lambda d: (d.named("batch_size", d.lead), d.size("features1", 24, 128)),
        "sequence",
        often=0.6,
    ),
    matmul(
        "einsum_contract",
        "torch.einsum('bid,bjd->bij', {x}, {y}).sum(dim=-1) | torch.einsum('bid,bjd->bi', {x}, {y})",
        "contraction over two axes",
        Operand("y", lambda s: (s.shape[0], s.draw.size("n", 24, 96), s.shape[2])),
        lambda s: s.shape[:2],
        lambda s: s.shape[2] * s.others[0].shape[1],
        _batch,
        "rows",
        often=0.4,
    ),
    matmul(
        "outer",
        "torch.outer({x}, {y}) | {x}[:, None] * {y}[None, :] | {x}.unsqueeze(1) @ {y}.unsqueeze(0)",
        "outer product",
        Operand("y", lambda s: (s.draw.size("m", 256, 4096),)),
        lambda s: (s.shape[0], s.others[0].shape[0]),
        lambda s: 1,
        lambda d: (d.named("n", max(32, d.lead)),),
        often=0.5,
    ),
    matmul(
        "batched_inner",
        "torch.sum({x} * {y}, dim=-1) | torch.einsum('bd,bd->b', {x}, {y}) | ({x} * {y}).sum(-1)",
        "inner product for each row",
        Operand("y", lambda s: s.shape),
        lambda s: s.shape[:1],
        _inner,
        lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 128, 2048)),
        "vector",
        often=0.6,
    ),
    matmul(
        "matmul_upper",
        ("torch.triu(torch.matmul({x}, {y})) | torch.matmul(torch.triu({x}), torch.triu({y})) | torch.triu({x}) @ {y}"),
        "product of upper triangular matrices",
        Operand("B", lambda s: s.shape),
        lambda s: s.shape,
        _inner,
        _square,
        often=0.7,
    ),
    matmul(
        "matmul_lower",
        ("torch.tril(torch.matmul({x}, {y})) | torch.matmul(torch.tril({x}), torch.tril({y})) | torch.tril({x}) @ {y}"),
        "product of lower triangular matrices",
        Operand("B", lambda s: s.shape),
        lambda s: s.shape,
        _inner,
        _square,
        often=0.7,
    ),
    matmul(
        "matmul_symmetric",
        "torch.matmul(0.5 * ({x} + {x}.T), {y}) | ({x} + {x}.t()) @ {y}",
        "product with a symmetrised matrix",
        Operand("B", lambda s: s.shape),
        lambda s: s.shape,
        _inner,
        _square,
        often=0.6,
    ),
    matmul(
        "diagonal_matmul",
        "torch.diag({x}) @ {y} | {x}.unsqueeze(1) * {y} | torch.matmul(torch.diag({x}), {y})",
        "product with a diagonal matrix",
        Operand("B", lambda s: (s.shape[0], s.draw.size("m", 128, 1024))),
        lambda s: s.others[0].shape,
        lambda s: s.shape[0] / 2,
        lambda d: (d.named("n", max(32, min(4096, d.lead * 8))),),
        often=0.6,
        law=lambda s: s.table * s.others[0].typical,
    ),
    Operator(
        "gemm_affine",
        "matmul",
        forms(
            "torch.addmm({z}, {x}, {y}, beta={beta}, alpha={alpha}) | {alpha} * ({x} @ {y}) + {beta} * {z} | "
            "{alpha} * torch.matmul({x}, {y}) + {beta} * {z}"
        ),
        "scaled matrix product plus a scaled matrix",
        ("matrix",),
        {"alpha": (0.5, 1.5, 2.0), "beta": (0.5, 0.75, 1.5)},
        others=(Operand("B", lambda s: (s.shape[1], _n(s))), Operand("C", lambda s: (s.shape[0], s.others[0].shape[1]))),
        shape=lambda s: s.others[1].shape,
        layout="rows",
        first=_matrix,
        law=lambda s: s.p["alpha"] * product(s.table, s.others[0].typical, _inner(s), s.draw.rng) + s.others[1].typical,
        work=_gemm(_inner, 2),
        roles=ALONE,
    ),
    Operator(
        "baddbmm",
        "matmul",
        forms("torch.baddbmm({z}, {x}, {y}) | torch.bmm({x}, {y}) + {z}"),
        "batched product plus a batch",
        ("matrix",),
        {},
        others=(
            Operand("B", lambda s: (s.shape[0], s.shape[2], s.draw.size("n", 24, 192))),
            Operand("C", lambda s: (*s.shape[:2], s.others[0].shape[2])),
        ),
        shape=lambda s: s.others[1].shape,
        layout="sequence",
        first=_batch,
        law=lambda s: product(s.table, s.others[0].typical, _inner(s), s.draw.rng) + s.others[1].typical,
        work=_gemm(_inner, 2),
        roles=ALONE,
        often=0.7,
    ),
    Operator(
        "gram",
        "matmul",
        forms("torch.bmm({x}, {x}.transpose(1, 2)) | {x} @ {x}.transpose(-1, -2) | torch.einsum('bcd,bed->bce', {x}, {x})"),
        "Gram matrix",
        ("sequence", "ncl"),
        {},
        shape=lambda s: (s.shape[0], s.shape[1], s.shape[1]),
        layout="sequence",
        work=_gemm(_inner),
        roles=ALONE,
        law=lambda s: product(s.table, s.table[::-1], s.shape[-1], s.draw.rng),
        often=0.7,
    ),
    Operator(
        "bilinear",
        "matmul",
        (Form("{@bilinear}({x}, {y})", (("bilinear", "nn.Bilinear({in1_features}, {in2_features}, {out_features})"),)),),
        "bilinear layer",
        ("rows",),
        {
            "in1_features": _inner,
            "in2_features": lambda s: s.others[0].shape[-1],
            "out_features": lambda s: s.draw.size("out_features", 8, 64),
        },
        others=(Operand("y", lambda s: (s.shape[0], s.draw.size("in2_features", 16, 64))),),
        first=lambda d: (d.named("batch_size", d.lead), d.size("in1_features", 16, 64)),
        shape=lambda s: (s.shape[0], s.p["out_features"]),
        law=lambda s: product(s.table, s.others[0].typical, s.others[0].shape[-1], s.draw.rng) * 0.58,
        work=lambda s, out: OperatorCost(
            s.x.bytes + out.bytes, 2.0 * count(s.shape) * s.others[0].shape[-1] * s.p["out_features"], "matmul", 3
        ),
        roles=ALONE,
        often=0.6,
        dtypes=("float32",),
    ),
    Operator(
        "matmul_chain",
        "matmul",
        forms("torch.matmul(torch.matmul({x}, {y}), {z}) | {x} @ {y} @ {z}"),
        "chain of matrix products",
        ("matrix",),
        {},
        others=(
            Operand("B", lambda s: (s.shape[1], s.draw.size("n", 48, 512)), "weights"),
            Operand("C", lambda s: (s.others[0].shape[1], s.draw.size("p", 48, 512)), "weights"),
        ),
        first=_matrix,
        shape=lambda s: (s.shape[0], s.others[1].shape[1]),
        layout="rows",
        law=lambda s: product(
            product(s.table, s.others[0].typical, _inner(s), s.draw.rng), s.others[1].typical, s.others[0].shape[1], s.draw.rng
        ),
        work=lambda s, out: OperatorCost(
            s.x.bytes + out.bytes, 2.0 * s.shape[0] * s.others[0].shape[1] * (s.shape[1] + out.shape[1]), "matmul", 2
        ),
        roles=ALONE,
        often=0.6,
    ),
    Operator(
        "cdist",
        "matmul",
        forms("torch.cdist({x}, {y}) | torch.cdist({x}, {y}, p=2.0)"),
        "pairwise Euclidean distances",
        ("matrix",),
        {},
        others=(Operand("y", lambda s: (s.draw.size("m", 64, 1024), s.shape[1])),),
        first=lambda d: (d.named("n", max(32, d.lead * 4)), d.size("dim", 16, 96)),
        shape=lambda s: (s.shape[0], s.others[0].shape[0]),
        layout="rows",
        law=lambda s: abs(product(s.table - s.others[0].typical, s.table - s.others[0].typical, s.shape[1], s.draw.rng)) ** 0.5,
        work=lambda s, out: OperatorCost(s.x.bytes + 3 * out.bytes, 4.0 * out.numel * s.shape[1], "matmul", 4),
        roles=ALONE,
        dtypes=("float32",),
        often=0.6,
    ),
    Operator(
        "cosine_matrix",
        "matmul",
        forms(
            "F.normalize({x}, dim=-1) @ F.normalize({y}, dim=-1).T | "
            "torch.matmul(F.normalize({x}, dim=1), F.normalize({y}, dim=1).t())"
        ),
        "matrix of cosine similarities",
        ("matrix",),
        {},
        others=(Operand("y", lambda s: (s.draw.size("m", 64, 1024), s.shape[1])),),
        first=lambda d: (d.named("n", max(32, d.lead * 4)), d.size("dim", 32, 512)),
        shape=lambda s: (s.shape[0], s.others[0].shape[0]),
        layout="rows",
        law=lambda s: product(s.table, s.others[0].typical, s.shape[1], s.draw.rng) / s.shape[1],
        work=lambda s, out: OperatorCost(6 * s.x.bytes + out.bytes, 2.0 * out.numel * s.shape[1], "matmul", 5),
        roles=ALONE,
        often=0.6,
    ),
)
