"""Operators that move data: lookups, gathers and scatters, sorting, shifting, resampling, joining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import BATCHED, Form, Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Shape, Table, Value, averaged

ALONE = roles("alone")
Fit = Callable[[OperatorUse], Shape | None]


def move(
    name: str,
    text: str,
    words: str,
    layouts: tuple[str, ...],
    parameters: dict[str, Any] | None = None,
    shape: Fit | None = None,
    *,
    often: float = 1.0,
    **more: Any,
) -> Operator:
    more.setdefault("roles", ALONE)
    if shape is not None:
        more["shape"] = shape
    return Operator(
        name,
        "indexing",
        forms(text, more.pop("attribute", "layer")),
        words,
        layouts,
        parameters or {},
        often=often,
        gives=more.pop("gives", "same"),
        **more,
    )


def _tokens(draw: Draw) -> Shape:
    return (draw.named("batch_size", draw.batch), draw.size("seq_len", 32, 512))


def _lookup(s: OperatorUse) -> Table:
    return np.array([[s.draw.rng.gauss(0, 1) for _ in range(s.table.shape[1])] for _ in range(s.table.shape[0])])


def _table_work(s: OperatorUse, out: Value) -> OperatorCost:
    return OperatorCost(s.x.bytes + 2 * out.bytes, out.numel)


def _scattered(s: OperatorUse, out: Value) -> OperatorCost:
    return OperatorCost(4.0 * out.bytes + s.others[0].bytes, 4.0 * out.numel, launches=2)


_EMBEDDING = ("embedding", "nn.Embedding({num_embeddings}, {embedding_dim})")
_VOCABULARY = {
    "num_embeddings": lambda s: s.draw.size("num_embeddings", 500, 20000),
    "embedding_dim": lambda s: s.draw.size("embedding_dim", 32, 512),
}

INDEXING = (
    Operator(
        "embedding",
        "indexing",
        (
            Form("{@embedding}({x})", (_EMBEDDING,)),
            Form("F.embedding({x}, {@table})", (("table", "nn.Parameter(torch.randn({num_embeddings}, {embedding_dim}))"),)),
            Form("{@table}[{x}]", (("table", "nn.Parameter(torch.randn({num_embeddings}, {embedding_dim}))"),)),
        ),
        "embedding lookup",
        ("tokens",),
        _VOCABULARY,
        first=_tokens,
        shape=lambda s: (*s.shape, s.p["embedding_dim"]),
        layout="sequence",
        law=_lookup,
        work=_table_work,
        result="float32",
        contents="integers",
        roles=ALONE,
        dtypes=("float32",),
        often=1.5,
    ),
    Operator(
        "embedding_bag",
        "indexing",
        (Form("{@bag}({x})", (("bag", 'nn.EmbeddingBag({num_embeddings}, {embedding_dim}, mode="{mode}")'),)),),
        "embedding bag",
        ("tokens",),
        {**_VOCABULARY, "mode": ("sum", "mean", "max")},
        first=_tokens,
        shape=lambda s: (s.shape[0], s.p["embedding_dim"]),
        layout="rows",
        law=_lookup,
        work=lambda s, out: OperatorCost(s.x.bytes + out.bytes * s.shape[1], 2.0 * out.numel * s.shape[1]),
        result="float32",
        contents="integers",
        roles=ALONE,
        dtypes=("float32",),
        literal=frozenset({"mode"}),
    ),
    Operator(
        "embedding_positions",
        "indexing",
        (
            Form(
                "{@tokens}({x}) + {@positions}.weight",
                (
                    ("tokens", "nn.Embedding({num_embeddings}, {embedding_dim})"),
                    ("positions", "nn.Embedding({seq_len}, {embedding_dim})"),
                ),
            ),
            Form(
                (
                    "{=positions} = torch.arange({x}.size(1), device={x}.device)\n"
                    "{@token_embedding}({x}) + {@position_embedding}({=positions})"
                ),
                (
                    ("token_embedding", "nn.Embedding({num_embeddings}, {embedding_dim})"),
                    ("position_embedding", "nn.Embedding({seq_len}, {embedding_dim})"),
                ),
            ),
        ),
        "token and position embedding",
        ("tokens",),
        {**_VOCABULARY, "seq_len": lambda s: s.shape[1]},
        first=_tokens,
        shape=lambda s: (*s.shape, s.p["embedding_dim"]),
        layout="sequence",
        law=_lookup,
        work=lambda s, out: OperatorCost(s.x.bytes + 4 * out.bytes, out.numel, launches=3),
        result="float32",
        contents="integers",
        roles=ALONE,
        dtypes=("float32",),
    ),
    Operator(
        "one_hot_sum",
        "indexing",
        forms(
            "F.one_hot({x}, {num_classes}).float().mean(dim=1) | F.one_hot({x}, num_classes={num_classes}).float().sum(dim=1)"
        ),
        "histogram of labels",
        ("tokens",),
        {"num_classes": (10, 16, 32, 50)},
        first=_tokens,
        shape=lambda s: (s.shape[0], s.p["num_classes"]),
        layout="rows",
        law=_lookup,
        work=lambda s, out: OperatorCost(20.0 * s.x.numel * s.p["num_classes"], s.x.numel * s.p["num_classes"], launches=3),
        result="float32",
        contents="small_integers",
        roles=ALONE,
        dtypes=("float32",),
        often=0.4,
    ),
    move(
        "gather",
        "torch.gather({x}, 1, {y}) | torch.gather({x}, dim=1, index={y}) | {x}.gather(1, {y})",
        "gather",
        ("rows", "matrix"),
        others=(
            Operand(
                "index",
                lambda s: (s.shape[0], s.draw.size("picks", 32, max(33, int(s.shape[1])))),
                "integers",
                lambda s: s.shape[1],
            ),
        ),
        shape=lambda s: s.others[0].shape,
        work=_scattered,
    ),
    move(
        "take_along_dim",
        "torch.take_along_dim({x}, {y}, dim=-1)",
        "gather along an axis",
        ("sequence",),
        others=(
            Operand(
                "index",
                lambda s: (*s.shape[:2], s.draw.size("picks", 16, max(17, int(s.shape[2])))),
                "integers",
                lambda s: s.shape[2],
            ),
        ),
        shape=lambda s: s.others[0].shape,
        work=_scattered,
        often=0.5,
    ),
    move(
        "index_select",
        "torch.index_select({x}, {dim}, {y}) | {x}.index_select({dim}, {y})",
        "selection of rows",
        ("matrix", "sequence"),
        {"dim": (0, 1)},
        others=(Operand("index", lambda s: (s.draw.size("count", 64, 4096),), "integers", lambda s: s.shape[s.p["dim"]]),),
        shape=lambda s: tuple(s.others[0].shape[0] if place == s.p["dim"] else length for place, length in enumerate(s.shape)),
        work=_scattered,
    ),
    move(
        "row_lookup",
        "{x}[{y}] | {x}[{y}, :]",
        "selection of rows by index",
        ("matrix",),
        others=(Operand("index", lambda s: (s.draw.size("count", 256, 8192),), "integers", lambda s: s.shape[0]),),
        shape=lambda s: (s.others[0].shape[0], s.shape[1]),
        work=_scattered,
        often=0.8,
    ),
    move(
        "scatter_add",
        (
            "torch.zeros({bins}, {x}.size(1), device={x}.device, dtype={x}.dtype).index_add_(0, {y}, {x}) | "
            "torch.zeros({bins}, {x}.shape[1], device={x}.device).index_add(0, {y}, {x})"
        ),
        "sum of rows by group",
        ("matrix",),
        {"bins": lambda s: s.draw.size("bins", 16, 512)},
        others=(Operand("groups", lambda s: s.shape[:1], "integers", lambda s: s.p["bins"]),),
        shape=lambda s: (s.p["bins"], s.shape[1]),
        law=lambda s: averaged(s.table, max(2, s.shape[0] // s.p["bins"]), s.draw.rng, total=True),
        work=lambda s, out: OperatorCost(3 * s.x.bytes + out.bytes, 10.0 * s.x.numel, launches=2),
        dtypes=("float32",),
        gives="any",
    ),
    move(
        "scatter_rows",
        "torch.zeros_like({x}).scatter_add(1, {y}, {x}) | torch.zeros_like({x}).scatter_add_(1, {y}, {x})",
        "scatter-add along rows",
        ("rows", "matrix"),
        others=(Operand("index", lambda s: s.shape, "integers", lambda s: s.shape[1]),),
        work=lambda s, out: OperatorCost(6 * s.x.bytes, 12.0 * s.x.numel, launches=2),
        dtypes=("float32",),
        often=0.6,
        gives="any",
    ),
    move(
        "sort",
        ("torch.sort({x}, dim=-1)[0] | torch.sort({x}, dim=-1, descending=True).values | {x}.sort(dim=-1).values"),
        "sorting",
        ("rows", "matrix"),
        weight=40,
        often=0.7,
    ),
    move(
        "argsort",
        "torch.argsort({x}, dim=-1) | {x}.argsort(dim=-1, descending=True)",
        "sorting order",
        ("rows", "matrix"),
        weight=45,
        result="int64",
        often=0.5,
        dtypes=("float32",),
    ),
    move(
        "roll",
        (
            "torch.roll({x}, shifts={shift}, dims={dim}) | torch.roll({x}, {shift}, dims={dim}) + {x} | "
            "{x}.roll({shift}, dims={dim})"
        ),
        "cyclic shift",
        ("rows", "sequence", "nchw"),
        {"shift": (1, 2, 3, 5, -1, -4), "dim": (1, -1)},
        law=lambda s: s.table + 0.01,
        often=0.6,
        roles=roles("alone"),
    ),
    move(
        "flip",
        "torch.flip({x}, dims=[{dim}]) | {x}.flip({dim})",
        "reversal",
        ("rows", "sequence", "nchw", "ncl"),
        {"dim": (1, -1)},
        law=lambda s: s.table[:, ::-1],
        often=0.5,
        literal=frozenset({"dim"}),
    ),
    move(
        "transpose_copy",
        "{x}.transpose(1, 2).contiguous() | {x}.permute(0, 2, 1).contiguous()",
        "transposition",
        ("sequence", "ncl"),
        shape=lambda s: (s.shape[0], s.shape[2], s.shape[1]),
        layout=lambda s: "ncl" if s.x.layout == "sequence" else "sequence",
        law=lambda s: s.table[:, ::-1],
        often=0.6,
    ),
    move(
        "channels_last",
        "{x}.permute(0, 2, 3, 1).contiguous() | torch.permute({x}, (0, 2, 3, 1)).contiguous()",
        "channels to the last axis",
        ("nchw",),
        shape=lambda s: (s.shape[0], *s.shape[2:], s.shape[1]),
        layout="other",
        law=lambda s: s.table[:, ::-1],
        often=0.6,
    ),
    move(
        "split_heads",
        (
            "{x}.view({x}.size(0), {x}.size(1), {num_heads}, -1).transpose(1, 2).contiguous() | "
            "{x}.reshape(*{x}.shape[:2], {num_heads}, -1).permute(0, 2, 1, 3).contiguous()"
        ),
        "split into heads",
        ("sequence",),
        {"num_heads": (2, 4, 8)},
        shape=lambda s: (
            (s.shape[0], s.p["num_heads"], s.shape[1], s.shape[2] // s.p["num_heads"])
            if s.shape[2] % s.p["num_heads"] == 0
            else None
        ),
        layout="heads",
        law=lambda s: s.table[:, ::-1],
        often=0.5,
    ),
    move(
        "pixel_shuffle",
        "nn.PixelShuffle({upscale_factor}) | F.pixel_shuffle({x}, {upscale_factor})",
        "pixel shuffle",
        ("nchw",),
        {"upscale_factor": (2, 3)},
        lambda s: (
            (s.shape[0], s.shape[1] // s.p["upscale_factor"] ** 2, *(length * s.p["upscale_factor"] for length in s.shape[2:]))
            if s.shape[1] % s.p["upscale_factor"] ** 2 == 0
            else None
        ),
        attribute="shuffle",
        roles=roles("alone tail"),
        often=0.7,
    ),
    move(
        "pixel_unshuffle",
        "nn.PixelUnshuffle({downscale_factor}) | F.pixel_unshuffle({x}, {downscale_factor})",
        "pixel unshuffle",
        ("nchw",),
        {"downscale_factor": (2,)},
        lambda s: (
            (s.shape[0], s.shape[1] * 4, s.shape[2] // 2, s.shape[3] // 2)
            if s.shape[2] % 2 == 0 and s.shape[3] % 2 == 0
            else None
        ),
        attribute="unshuffle",
        roles=roles("alone tail"),
        often=0.5,
    ),
    move(
        "channel_shuffle",
        (
            "nn.ChannelShuffle({groups}) | "
            "{x}.view({x}.size(0), {groups}, -1, {x}.size(2), {x}.size(3)).transpose(1, 2).reshape({x}.shape)"
        ),
        "channel shuffle",
        ("nchw",),
        {"groups": (2, 4)},
        lambda s: s.shape if s.shape[1] % s.p["groups"] == 0 and s.shape[1] > s.p["groups"] else None,
        attribute="shuffle",
        law=lambda s: s.table[:, ::-1],
        often=0.6,
        literal=frozenset({"groups"}),
    ),
    move(
        "pad_constant",
        ("F.pad({x}, ({left}, {right}), value={fill}) | F.pad({x}, ({left}, {right}), mode='constant', value={fill})"),
        "constant padding",
        ("ncl", "sequence", "rows"),
        {"left": (1, 2, 3), "right": (0, 1, 2), "fill": (0.0, 1.0)},
        lambda s: (*s.shape[:-1], s.shape[-1] + s.p["left"] + s.p["right"]),
        often=0.5,
        gives="any",
    ),
    move(
        "pad_reflect",
        ("nn.ReflectionPad2d({padding}) | F.pad({x}, ({padding}, {padding}, {padding}, {padding}), mode='reflect')"),
        "reflection padding",
        ("nchw",),
        {"padding": (1, 2, 3)},
        lambda s: (*s.shape[:2], *(length + 2 * s.p["padding"] for length in s.shape[2:])),
        attribute="pad",
        often=0.5,
        dtypes=("float32",),
    ),
    move(
        "pad_replicate",
        ("nn.ReplicationPad2d({padding}) | F.pad({x}, ({padding}, {padding}, {padding}, {padding}), mode='replicate')"),
        "replication padding",
        ("nchw",),
        {"padding": (1, 2)},
        lambda s: (*s.shape[:2], *(length + 2 * s.p["padding"] for length in s.shape[2:])),
        attribute="pad",
        often=0.4,
        dtypes=("float32",),
    ),
    move(
        "upsample_nearest",
        (
            "nn.Upsample(scale_factor={scale_factor}, mode='nearest') | "
            "F.interpolate({x}, scale_factor={scale_factor}, mode='nearest') | "
            "F.interpolate({x}, scale_factor={scale_factor})"
        ),
        "nearest-neighbour upsampling",
        ("nchw",),
        {"scale_factor": (2, 2, 3)},
        lambda s: (*s.shape[:2], *(length * s.p["scale_factor"] for length in s.shape[2:])),
        attribute="upsample",
        roles=roles("alone tail"),
        often=0.7,
    ),
    move(
        "upsample_bilinear",
        (
            "nn.Upsample(scale_factor={scale_factor}, mode='bilinear', align_corners=False) | "
            "F.interpolate({x}, scale_factor={scale_factor}, mode='bilinear', align_corners=False)"
        ),
        "bilinear upsampling",
        ("nchw",),
        {"scale_factor": (2,)},
        lambda s: (*s.shape[:2], *(length * s.p["scale_factor"] for length in s.shape[2:])),
        attribute="upsample",
        weight=14,
        roles=roles("alone tail"),
        often=0.7,
        dtypes=("float32",),
    ),
    move(
        "repeat_interleave",
        "torch.repeat_interleave({x}, {repeats}, dim=1) | {x}.repeat_interleave({repeats}, dim=1)",
        "repetition",
        ("sequence", "heads", "nchw"),
        {"repeats": (2, 3, 4)},
        lambda s: (s.shape[0], s.shape[1] * s.p["repeats"], *s.shape[2:]),
        often=0.4,
    ),
    move(
        "triangle",
        "torch.tril({x}) | torch.triu({x}) | torch.tril({x}, diagonal=-1)",
        "triangular part",
        ("sequence", "heads"),
        {},
        lambda s: s.shape if s.shape[-1] > 8 and s.shape[-2] > 8 else None,
        law=lambda s: np.where(np.arange(s.table.shape[1]) % 2 == 0, s.table, 0.0),
        often=0.5,
        gives="any",
    ),
    move(
        "cosine_similarity",
        "F.cosine_similarity({x}, {y}, dim={dim}) | nn.functional.cosine_similarity({x}, {y}, dim={dim})",
        "cosine similarity",
        ("rows", "sequence"),
        {"dim": (-1,)},
        lambda s: s.shape[:-1],
        others=(Operand("y", lambda s: s.shape),),
        layout=lambda s: "vector" if s.rank == 2 else "rows",
        law=lambda s: s.table * s.shape[-1] ** -0.5,
        weight=6,
        gives="any",
        literal=frozenset({"dim"}),
    ),
    move(
        "pairwise_distance",
        ("F.pairwise_distance({x}, {y}) | torch.norm({x} - {y}, dim=-1) | torch.sqrt((({x} - {y}) ** 2).sum(dim=-1) + 1e-6)"),
        "distance of each pair",
        ("rows",),
        {},
        lambda s: s.shape[:1],
        others=(Operand("y", lambda s: s.shape),),
        layout="vector",
        law=lambda s: (averaged((s.table - s.others[0].typical) ** 2, s.shape[1], s.draw.rng, total=True).clip(1e-9)) ** 0.5,
        weight=4,
        gives="any",
        often=0.7,
    ),
    move(
        "concatenate",
        "torch.cat([{x}, {y}], dim={dim}) | torch.cat(({x}, {y}), dim={dim})",
        "concatenation",
        BATCHED,
        {"dim": (1, 1, -1)},
        lambda s: tuple(
            length + s.others[0].shape[place] if place == s.p["dim"] % s.rank else length
            for place, length in enumerate(s.shape)
        ),
        others=(Operand("y", lambda s: s.shape),),
        law=lambda s: np.where(np.arange(s.table.shape[1]) % 2 == 0, s.table, s.others[0].typical),
        roles=roles("alone join"),
        gives="any",
        often=0.6,
        literal=frozenset({"dim"}),
    ),
    move(
        "stack_max",
        "torch.stack([{x}, {y}], dim=0).max(dim=0)[0] | torch.stack(({x}, {y})).amax(dim=0)",
        "larger of two, stacked",
        BATCHED,
        others=(Operand("y", lambda s: s.shape),),
        law=lambda s: np.maximum(s.table, s.others[0].typical),
        work=lambda s, out: OperatorCost(6 * s.x.bytes, 2.0 * s.x.numel, launches=2),
        often=0.3,
        gives="any",
    ),
    Operator(
        "token_shift",
        "indexing",
        (
            form(
                "{=previous} = F.pad({x}, (0, 0, 1, 0))[:, :-1]\n{x} * {@mix} + {=previous} * (1 - {@mix})",
                ("mix", "nn.Parameter(torch.rand({dim}))"),
            ),
            form(
                (
                    "{=shifted} = torch.cat([torch.zeros_like({x}[:, :1]), {x}[:, :-1]], dim=1)\n"
                    "{x} + {@mix} * ({=shifted} - {x})"
                ),
                ("mix", "nn.Parameter(torch.rand({dim}))"),
            ),
        ),
        "mixing with the previous token",
        ("sequence",),
        {"dim": lambda s: s.shape[-1]},
        law=lambda s: 0.7 * s.table,
        work=lambda s, out: OperatorCost(9 * s.x.bytes, 4.0 * s.x.numel, launches=5),
        roles=ALONE,
        often=0.6,
    ),
)
