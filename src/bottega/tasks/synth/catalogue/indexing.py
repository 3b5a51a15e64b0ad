"""Operators that move data: lookups, gathers and scatters, sorting, shifting, resampling, joining."""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.operator import BATCHED, Form, Operand, Operator, first, form, forms, roles

ALONE = roles("alone")


def move(name: str, text: str, layouts: tuple[str, ...], parameters: dict[str, Any] | None = None, **more: Any) -> Operator:
    made = forms(text, more.pop("attribute", "layer"))
    return Operator(name, "indexing", made, layouts, parameters or {}, **{"roles": ALONE, "gives": "same"} | more)


_TABLE = "nn.Embedding({num_embeddings}, {embedding_dim})"
_WEIGHTS = "nn.Parameter(torch.randn({num_embeddings}, {embedding_dim}))"
_PLACES = "nn.Embedding({seq_len}, {embedding_dim})"


_VOCABULARY: dict[str, Any] = {
    "num_embeddings": lambda s: s.draw.size("num_embeddings", 500, 20000),
    "embedding_dim": lambda s: s.draw.size("embedding_dim", 32, 512),
}


def lookup(name: str, *made: Form, parameters: dict[str, Any] = _VOCABULARY, **more: Any) -> Operator:
    """Of tokens, which are below what the table or the classes have."""
    given: dict[str, Any] = {
        "roles": ALONE,
        "dtypes": ("float32",),
        "first": first("batch_size@1 seq_len:32-512"),
        "contents": "integers",
    }
    return Operator(name, "indexing", made, ("tokens",), parameters, **given | more)


INDEXING = (
    lookup(
        "embedding",
        form("{@embedding}({x})", ("embedding", _TABLE)),
        form("F.embedding({x}, {@table})", ("table", _WEIGHTS)),
        form("{@table}[{x}]", ("table", _WEIGHTS)),
        often=1.5,
    ),
    lookup(
        "embedding_bag",
        form("{@bag}({x})", ("bag", 'nn.EmbeddingBag({num_embeddings}, {embedding_dim}, mode="{mode}")')),
        parameters=_VOCABULARY | {"mode": ("sum", "mean", "max")},
        literal=frozenset({"mode"}),
    ),
    lookup(
        "embedding_positions",
        form("{@tokens}({x}) + {@positions}.weight", ("tokens", _TABLE), ("positions", _PLACES)),
        form(
            "{=positions} = torch.arange({x}.size(1), device={x}.device)\n"
            "{@token_embedding}({x}) + {@position_embedding}({=positions})",
            ("token_embedding", _TABLE),
            ("position_embedding", _PLACES),
        ),
        parameters=_VOCABULARY | {"seq_len": lambda s: s.shape[1]},
    ),
    lookup(
        "one_hot_sum",
        form("F.one_hot({x}, {num_classes}).float().mean(dim=1)"),
        form("F.one_hot({x}, num_classes={num_classes}).float().sum(dim=1)"),
        contents="small_integers",
        parameters={"num_classes": (10, 16, 32, 50)},
    ),
    move(
        "gather",
        "torch.gather({x}, 1, {y}) | torch.gather({x}, dim=1, index={y}) | {x}.gather(1, {y})",
        ("rows", "matrix"),
        others=(
            Operand(
                "index",
                lambda s: (s.shape[0], s.draw.size("picks", 32, max(33, int(s.shape[1])))),
                "integers",
                lambda s: s.shape[1],
            ),
        ),
    ),
    move(
        "take_along_dim",
        "torch.take_along_dim({x}, {y}, dim=-1)",
        ("sequence",),
        others=(
            Operand(
                "index",
                lambda s: (*s.shape[:2], s.draw.size("picks", 16, max(17, int(s.shape[2])))),
                "integers",
                lambda s: s.shape[2],
            ),
        ),
    ),
    move(
        "index_select",
        "torch.index_select({x}, {dim}, {y}) | {x}.index_select({dim}, {y})",
        ("matrix", "sequence"),
        {"dim": (0, 1)},
        others=(Operand("index", lambda s: (s.draw.size("count", 64, 4096),), "integers", lambda s: s.shape[s.p["dim"]]),),
    ),
    move(
        "row_lookup",
        "{x}[{y}] | {x}[{y}, :]",
        ("matrix",),
        others=(Operand("index", lambda s: (s.draw.size("count", 256, 8192),), "integers", lambda s: s.shape[0]),),
    ),
    move(
        "scatter_add",
        (
            "torch.zeros({bins}, {x}.size(1), device={x}.device, dtype={x}.dtype).index_add_(0, {y}, {x}) | "
            "torch.zeros({bins}, {x}.shape[1], device={x}.device).index_add(0, {y}, {x})"
        ),
        ("matrix",),
        {"bins": lambda s: s.draw.size("bins", 16, 512)},
        others=(Operand("groups", lambda s: s.shape[:1], "integers", lambda s: s.p["bins"]),),
        dtypes=("float32",),
    ),
    move(
        "scatter_rows",
        "torch.zeros_like({x}).scatter_add(1, {y}, {x}) | torch.zeros_like({x}).scatter_add_(1, {y}, {x})",
        ("rows", "matrix"),
        others=(Operand("index", lambda s: s.shape, "integers", lambda s: s.shape[1]),),
        dtypes=("float32",),
    ),
    move(
        "sort",
        ("torch.sort({x}, dim=-1)[0] | torch.sort({x}, dim=-1, descending=True).values | {x}.sort(dim=-1).values"),
        ("rows", "matrix"),
    ),
    move(
        "argsort", "torch.argsort({x}, dim=-1) | {x}.argsort(dim=-1, descending=True)", ("rows", "matrix"), dtypes=("float32",)
    ),
    move(
        "roll",
        (
            "torch.roll({x}, shifts={shift}, dims={dim}) | torch.roll({x}, {shift}, dims={dim}) + {x} | "
            "{x}.roll({shift}, dims={dim})"
        ),
        ("rows", "sequence", "nchw"),
        {"shift": (1, 2, 3, 5, -1, -4), "dim": (1, -1)},
        roles=roles("alone"),
    ),
    move(
        "flip",
        "torch.flip({x}, dims=[{dim}]) | {x}.flip({dim})",
        ("rows", "sequence", "nchw", "ncl"),
        {"dim": (1, -1)},
        literal=frozenset({"dim"}),
    ),
    move("transpose_copy", "{x}.transpose(1, 2).contiguous() | {x}.permute(0, 2, 1).contiguous()", ("sequence", "ncl")),
    move("channels_last", "{x}.permute(0, 2, 3, 1).contiguous() | torch.permute({x}, (0, 2, 3, 1)).contiguous()", ("nchw",)),
    move(
        "split_heads",
        (
            "{x}.view({x}.size(0), {x}.size(1), {num_heads}, -1).transpose(1, 2).contiguous() | "
            "{x}.reshape(*{x}.shape[:2], {num_heads}, -1).permute(0, 2, 1, 3).contiguous()"
        ),
        ("sequence",),
        {"num_heads": (2, 4, 8)},
        when=lambda s: s.shape[2] % s.p["num_heads"] == 0,
    ),
    move(
        "pixel_shuffle",
        "nn.PixelShuffle({upscale_factor}) | F.pixel_shuffle({x}, {upscale_factor})",
        ("nchw",),
        {"upscale_factor": (2, 3)},
        attribute="shuffle",
        roles=roles("alone tail"),
        when=lambda s: s.shape[1] % s.p["upscale_factor"] ** 2 == 0,
    ),
    move(
        "pixel_unshuffle",
        "nn.PixelUnshuffle({downscale_factor}) | F.pixel_unshuffle({x}, {downscale_factor})",
        ("nchw",),
        {"downscale_factor": (2,)},
        attribute="unshuffle",
        roles=roles("alone tail"),
        when=lambda s: s.shape[2] % 2 == 0 and s.shape[3] % 2 == 0,
    ),
    move(
        "channel_shuffle",
        (
            "nn.ChannelShuffle({groups}) | "
            "{x}.view({x}.size(0), {groups}, -1, {x}.size(2), {x}.size(3)).transpose(1, 2).reshape({x}.shape)"
        ),
        ("nchw",),
        {"groups": (2, 4)},
        attribute="shuffle",
        literal=frozenset({"groups"}),
        when=lambda s: s.shape[1] % s.p["groups"] == 0 and s.shape[1] > s.p["groups"],
    ),
    move(
        "pad_constant",
        ("F.pad({x}, ({left}, {right}), value={fill}) | F.pad({x}, ({left}, {right}), mode='constant', value={fill})"),
        ("ncl", "sequence", "rows"),
        {"left": (1, 2, 3), "right": (0, 1, 2), "fill": (0.0, 1.0)},
    ),
    move(
        "pad_reflect",
        ("nn.ReflectionPad2d({padding}) | F.pad({x}, ({padding}, {padding}, {padding}, {padding}), mode='reflect')"),
        ("nchw",),
        {"padding": (1, 2, 3)},
        attribute="pad",
        dtypes=("float32",),
    ),
    move(
        "pad_replicate",
        ("nn.ReplicationPad2d({padding}) | F.pad({x}, ({padding}, {padding}, {padding}, {padding}), mode='replicate')"),
        ("nchw",),
        {"padding": (1, 2)},
        attribute="pad",
        dtypes=("float32",),
    ),
    move(
        "upsample_nearest",
        (
            "nn.Upsample(scale_factor={scale_factor}, mode='nearest') | "
            "F.interpolate({x}, scale_factor={scale_factor}, mode='nearest') | "
            "F.interpolate({x}, scale_factor={scale_factor})"
        ),
        ("nchw",),
        {"scale_factor": (2, 2, 3)},
        attribute="upsample",
        roles=roles("alone tail"),
    ),
    move(
        "upsample_bilinear",
        (
            "nn.Upsample(scale_factor={scale_factor}, mode='bilinear', align_corners=False) | "
            "F.interpolate({x}, scale_factor={scale_factor}, mode='bilinear', align_corners=False)"
        ),
        ("nchw",),
        {"scale_factor": (2,)},
        attribute="upsample",
        roles=roles("alone tail"),
        dtypes=("float32",),
    ),
    move(
        "repeat_interleave",
        "torch.repeat_interleave({x}, {repeats}, dim=1) | {x}.repeat_interleave({repeats}, dim=1)",
        ("sequence", "heads", "nchw"),
        {"repeats": (2, 3, 4)},
    ),
    move(
        "triangle",
        "torch.tril({x}) | torch.triu({x}) | torch.tril({x}, diagonal=-1)",
        ("sequence", "heads"),
        when=lambda s: s.shape[-1] > 8 and s.shape[-2] > 8,
    ),
    move(
        "cosine_similarity",
        "F.cosine_similarity({x}, {y}, dim={dim}) | nn.functional.cosine_similarity({x}, {y}, dim={dim})",
        ("rows", "sequence"),
        {"dim": (-1,)},
        others=(Operand("y", lambda s: s.shape),),
        literal=frozenset({"dim"}),
    ),
    move(
        "pairwise_distance",
        ("F.pairwise_distance({x}, {y}) | torch.norm({x} - {y}, dim=-1) | torch.sqrt((({x} - {y}) ** 2).sum(dim=-1) + 1e-6)"),
        ("rows",),
        others=(Operand("y", lambda s: s.shape),),
    ),
    move(
        "concatenate",
        "torch.cat([{x}, {y}], dim={dim}) | torch.cat(({x}, {y}), dim={dim})",
        BATCHED,
        {"dim": (1, 1, -1)},
        others=(Operand("y", lambda s: s.shape),),
        law=lambda s: (s.table + s.others[0].typical[:, ::-1]) / 2**0.5,
        roles=roles("alone join"),
        gives="any",
        literal=frozenset({"dim"}),
    ),
    move(
        "stack_max",
        "torch.stack([{x}, {y}], dim=0).max(dim=0)[0] | torch.stack(({x}, {y})).amax(dim=0)",
        BATCHED,
        others=(Operand("y", lambda s: s.shape),),
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
        ("sequence",),
        {"dim": lambda s: s.shape[-1]},
        roles=ALONE,
    ),
)
