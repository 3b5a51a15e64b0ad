"""What the words of the catalogue's forms stand for: numbers and options, parameters of the module, further inputs, and the first input.

Other words are sizes and dimensions of the current value; `step.py` knows them.
"""

from __future__ import annotations

SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {
        "features": (64, 128, 256, 384, 512, 1000), "length": (16, 32, 50, 64), "channels": (3, 4, 8, 16, 24, 32),
        "maps1": (64, 128, 256, 500), "maps2": (14, 16, 28, 32, 56), "maps3": (6, 8, 12, 16),
    },
    "cuda": {
        "features": (128, 256, 500, 512, 768, 1024, 2048, 4096), "length": (64, 100, 128, 256, 512), "channels": (3, 8, 16, 24, 32, 48, 64, 96, 128),
        "maps1": (128, 256, 512, 1000, 2048), "maps2": (28, 32, 56, 64, 96, 112, 128), "maps3": (12, 16, 20, 24, 32),
    },
    "any": {
        "heads": (2, 4, 8, 12, 16), "head_dim": (32, 48, 64, 80, 96, 128), "labels": (16, 32, 64, 100, 128), "skinny": (8, 16, 24, 32),
        "deep": (2048, 4096, 8192), "squares": (32, 64, 96, 128), "steps": (8, 12, 16, 24), "embedded": (64, 128, 192, 256, 384, 512),
    },
}  # fmt: skip
STARTS: dict[str, tuple[str, ...]] = {
    "vector": (), "rows": ("features",), "labels": ("labels",), "skinny": ("skinny",), "deep": ("deep",), "tokens": ("length",),
    "sequence": ("length", "features"), "steps": ("steps", "features"), "embedded": ("length", "embedded"), "squares": ("squares", "squares"),
    "heads": ("heads", "length", "head_dim"), "scores": ("length", "head_dim"),
    "maps1": ("channels", "maps1"), "maps2": ("channels", "maps2", "maps2"), "maps3": ("channels", "maps3", "maps3", "maps3"),
}  # fmt: skip
"""Shapes of the first input, by what their lengths are drawn from; the batch comes in front."""
CHAIN_STARTS = {"rows": 28.0, "sequence": 15.0, "maps1": 10.0, "maps2": 27.0, "maps3": 13.0, "scores": 4.0, "heads": 3.0}
ALONE_STARTS = {"rows": 4.0, "sequence": 2.0, "maps1": 1.0, "maps2": 3.0, "maps3": 1.0, "heads": 1.0, "vector": 0.7}
FIRST_NAMES = ("x", "x", "x", "x", "inp", "data", "features", "signal", "inputs", "input_tensor", "hidden_states")
CONTENTS: dict[str, str] = {
    "normal": "torch.randn({shape})",
    "uniform": "torch.rand({shape})",
    "signed": "torch.rand({shape}) * 2 - 1",
    "shifted": "torch.randn({shape}) + 0.5",
    "wide": "torch.randn({shape}) * 3",
    "positive": "torch.rand({shape}) + 0.1",
    "inner": "torch.rand({shape}) * 0.9 + 0.05",
    "open": "torch.rand({shape}) * 1.8 - 0.9",
    "near_one": "1.0 + 0.05 * torch.randn({shape})",
    "scaled": "torch.randn({shape}) * torch.rand(1)",
    "scaled_wide": "torch.randn({shape}) * torch.rand(1) * 4",
}
"""Of the first input. A loss that is one number is given inputs of another scale each time: a mean over many elements hardly changes."""
USUAL_CONTENTS = {"normal": 12.0, "uniform": 3.0, "signed": 1.0, "shifted": 0.5, "wide": 0.5}
VALUES: dict[str, tuple[str, ...]] = {
    "number": ("0.5", "2.0", "1.5", "0.7", "3.0", "0.25", "1.0", "4.0", "0.9"),
    "slope": ("0.01", "0.1", "0.2", "0.05", "0.3", "0.5"),
    "small": ("1e-5", "1e-6", "1e-8", "1e-3"),
    "power": ("2", "3", "2.0"),
    "exponent": ("0.3", "0.5", "0.75", "1.5", "2.5"),
    "low": ("-2.0", "-1.0", "-0.5", "-0.25", "-0.1"),
    "high": ("0.25", "0.5", "1.0", "2.0"),
    "keep": ("", "", ", keepdim=True"),
    "bias": ("", "", "", ", bias=False"),
    "out": ("64", "128", "256", "512", "1000", "1024", "2048", "{F}", "{F}"),
    "planes": ("8", "16", "24", "32", "48", "64", "64", "96", "128", "{C}", "{C}"),
    "hidden": ("64", "128", "200", "256", "384"),
    "few": ("16", "32", "64", "100"),
    "count": ("100", "256", "500", "1000", "2048"),
    "bins": ("16", "64", "100", "256", "512"),
    "vocabulary": ("100", "500", "1000", "5000", "20000"),
    "width": ("32", "64", "128", "256", "512"),
    "key_count": ("32", "64", "100", "128", "384"),
    "group": ("2", "3", "4", "5", "8", "10", "16"),
    "layers": ("", "", ", num_layers=2", ", num_layers=3"),
    "both": ("", "", "", ", bidirectional=True"),
    "kernel": ("3", "3", "1", "5, padding=2", "3, padding=1", "3, padding=1", "4, stride=2, padding=1", "kernel_size=3, stride=2", "7, padding=3",
               "3, dilation=2, padding=2", "3, groups={divisor}", '3, padding="same"', "kernel_size=5", "2"),
    "odd_kernel": ("(1, 3), padding=(0, 1)", "(3, 1)", "(5, 3), padding=(2, 1)", '(3, 5), padding="same"', "(1, 7)", "(2, 4)"),
    "turned_kernel": ("3, stride=2, padding=1, output_padding=1", "4, stride=2, padding=1", "3", "3, padding=1", "2, stride=2",
                      "5, stride=2, padding=2"),
    "window": ("2", "2", "3", "kernel_size=3, stride=2, padding=1", "kernel_size=3, stride=1, padding=1"),
    "reduced": ("mean", "mean", "sum", "amax", "amin", "logsumexp"),
    "unbiased": ("", ", unbiased=False", ", correction=0"),
}  # fmt: skip
GAINS = (
    "scale",
    "gain",
    "weight",
    "multiplier",
    "gamma",
    "factor",
    "alpha",
    "strength",
    "row_scale",
    "temperature",
    "sharpness",
)
SHIFTS = ("bias", "shift", "offset", "beta", "delta", "centre", "subtract", "extra_bias", "row_bias", "column_bias", "rows")
PARAMETERS: dict[str, tuple[tuple[str, ...], str]] = {
    "gain": (GAINS, "nn.Parameter(torch.ones({C}{ones}) + 0.1 * torch.randn({C}{ones}))"),
    "some_gain": (GAINS, "nn.Parameter(torch.ones({some}) + 0.1 * torch.randn({some}))"),
    "one_gain": (GAINS, "nn.Parameter(torch.ones(1) + 0.1 * torch.randn(1))"),
    "shift": (SHIFTS, "nn.Parameter(0.1 * torch.randn({C}{ones}))"),
    "some_shift": (SHIFTS, "nn.Parameter(0.1 * torch.randn({some}))"),
    "flat_gain": (GAINS, "nn.Parameter(torch.ones({C}) + 0.1 * torch.randn({C}))"),
    "flat_shift": (SHIFTS, "nn.Parameter(0.1 * torch.randn({C}))"),
    "matrix": (("W", "matrix", "mixing", "basis", "weight"), "nn.Parameter(torch.randn({F}, {out}) / {F} ** 0.5)"),
    "turned_matrix": (("W", "weight", "kernel"), "nn.Parameter(torch.randn({out}, {F}) * {F} ** -0.5)"),
    "head_matrix": (("W", "weight", "per_head"), "nn.Parameter(torch.randn({lead}{F}, {hidden}) / {F} ** 0.5)"),
    "row": (SHIFTS, "nn.Parameter(0.1 * torch.randn({out}))"),
    "bank": (("prototypes", "centres", "anchors", "classes"), "nn.Parameter(torch.randn({count}, {F}))"),
}
_MATRICES, _MASKS = ("B", "y", "other", "projection"), ("mask", "keep", "valid", "hidden_at", "padding")
_TARGETS = ("targets", "target", "y")
INPUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "other": (("y", "target", "other", "residual", "labels", "reference", "skip", "guide"), "torch.randn(batch_size, {sizes})"),
    "third": (("negative", "far", "z", "second"), "torch.randn(batch_size, {sizes})"),
    "scaled": (_TARGETS, "torch.randn(batch_size, {sizes}) * torch.rand(1)"),
    "uniform": (_TARGETS, "torch.rand(batch_size, {sizes})"),
    "positive": (("variance", "spread"), "torch.rand(batch_size, {sizes}) + 0.1"),
    "shares": (_TARGETS, "torch.softmax(torch.randn(batch_size, {sizes}), dim=-1)"),
    "zero_one": (_TARGETS, "torch.randint(0, 2, (batch_size, {sizes})).float()"),
    "signs": (_TARGETS, "torch.randint(0, 2, (batch_size, {sizes})).float() * 2 - 1"),
    "row_signs": (("labels", "signs"), "torch.randint(0, 2, (batch_size,)).float() * 2 - 1"),
    "labels": (("target", "labels", "classes"), "torch.randint(0, {F}, (batch_size,))"),
    "shared": (("mask", "positions", "table", "prior", "window"), "torch.randn({some})"),
    "flags": (_MASKS, "torch.rand(batch_size, {sizes}) > 0.4"),
    "shared_flags": (_MASKS, "torch.rand({some}) < 0.4"),
    "whole": (_MASKS, "torch.randint(0, 2, (batch_size, {sizes}))"),
    "rows": (("y", "gate", "row_weights"), "torch.randn(batch_size, {F})"),
    "few_rows": (("y", "other"), "torch.randn(batch_size, {few})"),
    "tall": (("C", "y", "other"), "torch.randn(batch_size, {out})"),
    "wide": (_MATRICES, "torch.randn({few}, batch_size)"),
    "weights": (_MATRICES, "torch.randn({F}, {out})"),
    "narrow_weights": (_MATRICES, "torch.randn({F}, {few})"),
    "turned_weights": (_MATRICES, "torch.randn({out}, {F})"),
    "first_factor": (_MATRICES, "torch.randn({F}, {hidden}) * 0.1"),
    "second_factor": (("C", "second"), "torch.randn({hidden}, {out}) * 0.1"),
    "vector": (("v", "vector"), "torch.randn({F})"),
    "row_vector": (("y", "other"), "torch.randn({out})"),
    "columns": (_MATRICES, "torch.randn(batch_size, {F}, {out})"),
    "turned": (_MATRICES, "torch.randn(batch_size, {out}, {F})"),
    "state": (("h0", "state", "hidden"), "torch.randn(1, batch_size, {hidden})"),
    "memory_state": (("hidden", "state"), "torch.randn(batch_size, {hidden})"),
    "cell_state": (("cell_state", "c0"), "torch.randn(batch_size, {hidden})"),
    "memory": (("memory", "context"), "torch.randn(batch_size, {key_count}, {F})"),
    "key": (("k", "key", "keys"), "torch.randn(batch_size, {sizes})"),
    "value": (("v", "value", "values"), "torch.randn(batch_size, {sizes})"),
    "keys": (("k", "key", "keys", "y", "memory"), "torch.randn(batch_size, {lead}{key_count}, {F})"),
    "key_values": (("v", "value", "values", "z"), "torch.randn(batch_size, {lead}{key_count}, {F})"),
    "values": (("v", "value", "values", "z"), "torch.randn(batch_size, {lead}{F}, {hidden})"),
    "few_keys": (("k", "key"), "torch.randn(batch_size, {half_heads}, {last})"),
    "few_values": (("v", "value"), "torch.randn(batch_size, {half_heads}, {last})"),
    "score_bias": (("bias", "attn_bias"), "torch.randn({lead}{S}, {S})"),
    "cosine": (("cos",), "torch.rand({last}) * 2 - 1"),
    "sine": (("sin",), "torch.rand({last}) * 2 - 1"),
    "added": (("mask", "attn_mask", "bias", "causal", "position_bias"), "torch.randn({last})"),
    "hiding": (("mask", "attn_mask", "causal"), "torch.where(torch.rand({last}) > 0.2, 0.0, -10000.0)"),
    "seen": (("mask", "attn_mask", "causal"), "torch.rand({last}) > 0.4"),
    "hidden_keys": (("key_mask", "valid", "padding_mask"), "torch.randint(0, 2, (batch_size, {F}))"),
    "index": (("index", "picks"), "torch.randint(0, {F}, (batch_size, {count}))"),
    "same_index": (("index",), "torch.randint(0, {F}, (batch_size, {F}))"),
    "deep_index": (("index",), "torch.randint(0, {F}, (batch_size, {S}, {few}))"),
    "picks": (("index", "picks"), "torch.randint(0, {F}, ({count},))"),
    "row_picks": (("index", "picks"), "torch.randint(0, batch_size, ({count},))"),
    "groups": (("groups", "segments"), "torch.randint(0, {bins}, (batch_size,))"),
}
"""Further inputs: what they are called, and how they are drawn."""
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "linear": ("linear", "linear", "fc", "proj", "gemm", "dense", "fc1", "fc2", "lin", "lift", "mix", "head", "proj_2a", "l1"),
    "transpose": ("conv_transpose", "conv_transpose", "deconv", "up", "expand", "conv"),
    "conv": ("conv", "conv", "conv1", "conv2", "conv_layer", "branch1x1", "conv3x3", "reduce5", "dw3x3", "stage2_conv", "stem", "filter"),
    "norm": ("norm", "norm", "bn", "bn1", "bn2a", "batch_norm", "ln", "normalization"),
    "pool": ("pool", "pool", "pooling", "down"),
    "embedding": ("embedding", "embed", "table", "tokens"),
    "": ("act", "activation", "act_fn", "layer", "layer1", "nonlinearity", "op", "inner", "body"),
}  # fmt: skip
"""Names of layers, by a part of their class's name."""
TWINS = (
    "nn.Linear({F}, {out}{bias})",
    "nn.Conv{nd}d({C}, {planes}, 3, padding=1{bias})",
    "nn.Conv{nd}d({C}, {planes}, 1{bias})",
)
"""Layers of which two stand side by side: `A` and `B` in a form are their values."""
