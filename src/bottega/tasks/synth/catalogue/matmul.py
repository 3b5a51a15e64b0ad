"""Matrix products in every shape: square, tall, batched, transposed, structured, as layers, as einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bottega.tasks.synth.operator import Form, Operator, OperatorUse, first, form, forms, operand, roles
from bottega.tasks.synth.value import mixed

HEAD = roles("alone head")


def _wide(name: str, low: int = 32, high: int = 1024) -> Callable[[OperatorUse], int]:
    return lambda s: s.draw.size(name, low, high * s.draw.shrink * s.draw.target.sizes**1.5)


def matmul(name: str, text: str, x: str, *others: tuple[str, str] | tuple[str, str, str], **more: Any) -> Operator:
    """Of inputs with these lengths; with normal contents, which no product averages away."""
    given: dict[str, Any] = {"contents": "normal", "roles": roles("alone"), "first": first(x)} | more
    return Operator(name, "matmul", forms(text), ("matrix",), others=tuple(operand(*one) for one in others), **given)


def _inner(s: OperatorUse) -> int:
    return s.shape[-1]


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
        "n@16x16 n@16x16",
        ("B", "n n"),
    ),
    matmul("matmul", "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})", "m@8 k:64-768", ("B", "k n:48-768"), often=2.0),
    matmul(
        "matmul_transposed_a",
        "torch.matmul({x}.T, {y}) | {x}.t() @ {y} | torch.mm({x}.t(), {y})",
        "k:64-768 m@8",
        ("B", "k n:48-768"),
    ),
    matmul(
        "matmul_transposed_b",
        "torch.matmul({x}, {y}.T) | {x} @ {y}.t() | torch.mm({x}, {y}.t())",
        "m@8 k:64-768",
        ("B", "n:48-768 k"),
    ),
    matmul("matmul_transposed_both", "torch.matmul({x}.T, {y}.T) | {x}.t() @ {y}.t()", "k:64-768 m@8", ("B", "n:48-768 k")),
    matmul(
        "matmul_tall_skinny",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.mm({x}, {y})",
        "rows@64x32 inner:16-96",
        ("B", "inner cols:32-512"),
    ),
    matmul("matmul_deep", "torch.matmul({x}, {y}) | {x} @ {y}", "rows:16-64 inner@256x32", ("B", "inner cols:16-64")),
    matmul("matrix_vector", "torch.matmul({x}, {y}) | {x} @ {y} | torch.mv({x}, {y})", "rows@16 cols:256-4096", ("v", "cols")),
    matmul(
        "bmm",
        "torch.bmm({x}, {y}) | {x} @ {y} | torch.matmul({x}, {y}) | torch.einsum('bij,bjk->bik', {x}, {y})",
        "batch_size@1 m:24-192 k:24-192",
        ("B", "batch_size k n:24-192"),
        often=1.8,
    ),
    matmul(
        "bmm_transposed",
        "torch.bmm({x}, {y}.transpose(1, 2)) | torch.matmul({x}, {y}.transpose(-2, -1)) | "
        "torch.einsum('bid,bjd->bij', {x}, {y}) | {x} @ {y}.mT",
        "batch_size@1 m:24-192 k:24-192",
        ("B", "batch_size n:24-192 k"),
    ),
    matmul(
        "matmul_3d_by_2d",
        "torch.matmul({x}, {y}) | {x} @ {y} | torch.einsum('bmk,kn->bmn', {x}, {y}) | torch.tensordot({x}, {y}, dims=1)",
        "batch_size@1 m:24-192 k:24-192",
        ("B", "k n:24-192"),
    ),
    matmul(
        "matmul_4d_by_2d",
        "torch.matmul({x}, {y}) | torch.einsum('bijl,lk->bijk', {x}, {y})",
        "batch_size@1 i:8-48 j:8-48 l:24-128",
        ("B", "l k:16-128"),
    ),
    matmul(
        "einsum_bilinear",
        "torch.einsum('bi,bj->bij', {x}, {y}) | {x}.unsqueeze(2) * {y}.unsqueeze(1) | "
        "torch.bmm({x}.unsqueeze(2), {y}.unsqueeze(1))",
        "batch_size@1 features1:24-128",
        ("y", "batch_size features2:24-128"),
    ),
    matmul(
        "einsum_contract",
        "torch.einsum('bid,bjd->bij', {x}, {y}).sum(dim=-1) | torch.einsum('bid,bjd->bi', {x}, {y})",
        "batch_size@1 m:24-192 k:24-192",
        ("y", "batch_size n:24-96 k"),
    ),
    matmul(
        "outer",
        "torch.outer({x}, {y}) | {x}[:, None] * {y}[None, :] | {x}.unsqueeze(1) @ {y}.unsqueeze(0)",
        "n@32",
        ("y", "m:256-4096"),
    ),
    matmul(
        "batched_inner",
        "torch.sum({x} * {y}, dim=-1) | torch.einsum('bd,bd->b', {x}, {y}) | ({x} * {y}).sum(-1)",
        "batch_size@16 dim:128-2048",
        ("y", "batch_size dim"),
    ),
    matmul(
        "matmul_upper",
        "torch.triu(torch.matmul({x}, {y})) | torch.matmul(torch.triu({x}), torch.triu({y})) | torch.triu({x}) @ {y}",
        "n@16x16 n@16x16",
        ("B", "n n"),
    ),
    matmul(
        "matmul_lower",
        "torch.tril(torch.matmul({x}, {y})) | torch.matmul(torch.tril({x}), torch.tril({y})) | torch.tril({x}) @ {y}",
        "n@16x16 n@16x16",
        ("B", "n n"),
    ),
    matmul(
        "matmul_symmetric", "torch.matmul(0.5 * ({x} + {x}.T), {y}) | ({x} + {x}.t()) @ {y}", "n@16x16 n@16x16", ("B", "n n")
    ),
    matmul(
        "diagonal_matmul",
        "torch.diag({x}) @ {y} | {x}.unsqueeze(1) * {y} | torch.matmul(torch.diag({x}), {y})",
        "n@32x8",
        ("B", "n m:128-1024"),
        when=lambda s: s.shape[0] <= 4096,
    ),
    matmul(
        "gemm_affine",
        "torch.addmm({z}, {x}, {y}, beta={beta}, alpha={alpha}) | {alpha} * ({x} @ {y}) + {beta} * {z} | "
        "{alpha} * torch.matmul({x}, {y}) + {beta} * {z}",
        "m@8 k:64-768",
        ("B", "k n:48-768"),
        ("C", "m n"),
        parameters={"alpha": (0.5, 1.5, 2.0), "beta": (0.5, 0.75, 1.5)},
    ),
    matmul(
        "baddbmm",
        "torch.baddbmm({z}, {x}, {y}) | torch.bmm({x}, {y}) + {z}",
        "batch_size@1 m:24-192 k:24-192",
        ("B", "batch_size k n:24-192"),
        ("C", "batch_size m n"),
    ),
    matmul(
        "gram",
        "torch.bmm({x}, {x}.transpose(1, 2)) | {x} @ {x}.transpose(-1, -2) | torch.einsum('bcd,bed->bce', {x}, {x})",
        "batch_size@1 seq_len:16-192 dim:32-384",
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
        (operand("y", "batch_size in2_features:16-64"),),
        first=first("batch_size@1 in1_features:16-64"),
        contents="normal",
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    matmul(
        "matmul_chain",
        "torch.matmul(torch.matmul({x}, {y}), {z}) | {x} @ {y} @ {z}",
        "m@8 k:64-768",
        ("B", "k n:48-512", "weights"),
        ("C", "n p:48-512", "weights"),
    ),
    matmul(
        "cdist",
        "torch.cdist({x}, {y}) | torch.cdist({x}, {y}, p=2.0)",
        "n@32x4 dim:8-48",
        ("y", "m:64-1024 dim"),
        dtypes=("float32",),
    ),
    matmul(
        "cosine_matrix",
        "F.normalize({x}, dim=-1) @ F.normalize({y}, dim=-1).T | "
        "torch.matmul(F.normalize({x}, dim=1), F.normalize({y}, dim=1).t())",
        "n@32x4 dim:32-512",
        ("y", "m:64-1024 dim"),
    ),
)
