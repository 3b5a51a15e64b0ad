"""Templates of the steps of a chain: text with `{x}` for the current value, by kind, with how often each kind is drawn.

Lines in front of the last are statements. `<-` is followed by the layer that `{layer}` calls. Other words are sizes and dimensions of the
current value, numbers of `VALUES`, parameters of `PARAMETERS` and further inputs of `NAMES`.
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
}  # fmt: skip
FIRST = ("x", "x", "inp", "data", "features", "signal")
"""Names of the first input."""
STARTS = {"rows": 28.0, "sequence": 15.0, "maps1": 10.0, "maps2": 27.0, "maps3": 13.0, "scores": 7.0}
VALUES: dict[str, tuple[str, ...]] = {
    "number": ("0.5", "2.0", "1.5", "0.7", "3.0", "0.25", "1.0", "4.0", "0.9"),
    "slope": ("0.01", "0.1", "0.2", "0.05", "0.3", "0.5"),
    "small": ("1e-5", "1e-6", "1e-8", "1e-3"),
    "power": ("2", "3", "2.0"),
    "keep": ("", "", ", keepdim=True"),
    "bias": ("", "", "", ", bias=False"),
    "out": ("64", "128", "256", "512", "1000", "1024", "2048", "{F}", "{F}"),
    "planes": ("8", "16", "24", "32", "48", "64", "64", "96", "128", "{C}", "{C}"),
    "hidden": ("64", "128", "200", "256", "384"),
    "count": ("100", "256", "500", "1000", "2048"),
    "steps": ("32", "64", "100", "128", "384"),
    "group": ("2", "3", "4", "5", "8", "10", "16"),
    "layers": ("", "", ", num_layers=2", ", num_layers=3"),
    "both": ("", "", "", ", bidirectional=True"),
    "kernel": ("3", "3", "1", "5, padding=2", "3, padding=1", "3, padding=1", "4, stride=2, padding=1", "kernel_size=3, stride=2", "7, padding=3",
               "3, dilation=2, padding=2", "3, groups={divisor}", '3, padding="same"', "kernel_size=5", "2"),
    "odd_kernel": ("(1, 3), padding=(0, 1)", "(3, 1)", "(5, 3), padding=(2, 1)", '(3, 5), padding="same"'),
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
    "matrix": (("W", "matrix", "mixing", "basis"), "nn.Parameter(torch.randn({F}, {out}) / {F} ** 0.5)"),
    "row": (SHIFTS, "nn.Parameter(0.1 * torch.randn({out}))"),
    "bank": (("prototypes", "centres", "anchors", "classes"), "nn.Parameter(torch.randn({count}, {F}))"),
}
NAMES: dict[str, tuple[tuple[str, ...], str]] = {
    "other": (("y", "target", "other", "residual", "labels", "reference", "skip", "guide"), "torch.randn(batch_size, {sizes})"),
    "third": (("negative", "far", "z", "second"), "torch.randn(batch_size, {sizes})"),
    "shared": (("mask", "positions", "table", "prior", "window"), "torch.randn({some})"),
    "flags": (("mask", "keep", "valid", "hidden_at", "padding"), "torch.rand(batch_size, {sizes}) > 0.4"),
    "shared_flags": (("mask", "keep", "valid", "hidden_at", "padding"), "torch.rand({some}) < 0.4"),
    "whole": (("mask", "keep", "valid"), "torch.randint(0, 2, (batch_size, {sizes}))"),
    "labels": (("target", "labels", "classes"), "torch.randint(0, {F}, (batch_size,))"),
    "rows": (("y", "gate", "weights"), "torch.randn(batch_size, {F})"),
    "columns": (("y", "other", "projection"), "torch.randn(batch_size, {F}, {out})"),
    "turned": (("y", "other", "projection"), "torch.randn(batch_size, {out}, {F})"),
    "state": (("h0", "state", "hidden"), "torch.randn(1, batch_size, {hidden})"),
    "keys": (("k", "key", "keys", "y", "memory"), "torch.randn(batch_size, {lead}{steps}, {F})"),
    "values": (("v", "value", "values", "z"), "torch.randn(batch_size, {lead}{F}, {hidden})"),
    "added": (("mask", "attn_mask", "bias", "causal", "position_bias"), "torch.randn({last})"),
    "hiding": (("mask", "attn_mask", "causal"), "torch.where(torch.rand({last}) > 0.2, 0.0, -10000.0)"),
    "seen": (("mask", "attn_mask", "causal"), "torch.rand({last}) > 0.4"),
    "hidden_keys": (("key_mask", "valid", "padding_mask"), "torch.randint(0, 2, (batch_size, {F}))"),
}
"""Further inputs: what they are called, and how they are drawn."""
LAYER_NAMES = (
    "conv1x1", "conv3x3", "branch1x1", "branch3x3", "fc1", "fc2", "conv1", "conv2", "layer1", "dw3x3", "reduce5", "stage2_conv", "proj_2a",
    "l1", "conv",
    "proj", "fc", "layer", "lift", "mix", "head", "body", "block", "stem", "trunk", "encode", "inner", "lin", "filter", "expand",
    "gate_proj", "norm", "pool",
)  # fmt: skip

TWINS = (
    "nn.Linear({F}, {out}{bias})",
    "nn.Conv{nd}d({C}, {planes}, 3, padding=1{bias})",
    "nn.Conv{nd}d({C}, {planes}, 1{bias})",
)
"""Layers of which two stand side by side: `A` and `B` in a text are their values."""
TEMPLATES: dict[str, tuple[float, tuple[str, ...]]] = {
    "activation": (27, (
        "torch.relu({x})", "F.leaky_relu({x}, {slope})", "F.elu({x}, alpha={number})", "F.selu({x})", "F.gelu({x})",
        'F.gelu({x}, approximate="tanh")',
        "F.silu({x})", "{x} * torch.sigmoid({x})", "F.mish({x})", "{x} * torch.tanh(F.softplus({x}))", "torch.tanh({x})", "torch.sigmoid({x})",
        "F.softplus({x})", "F.softplus({x}, beta={number}, threshold=10)", "F.softplus({x}, {number})", "F.hardshrink({x}, {slope})",
        "F.softsign({x})", "F.hardtanh({x}, min_val=-{number}, max_val={number})", "F.hardswish({x})", "F.hardsigmoid({x})",
        "F.relu6({x})", "F.logsigmoid({x})", "F.tanhshrink({x})", "F.softshrink({x}, {slope})", "F.celu({x})", "torch.abs({x})", "{x} * {x}",
        "torch.square({x})", "torch.sin({x})", "torch.cos({x})", "torch.exp(-{x} * {x})", "torch.clamp({x}, -{number}, {number})",
        "torch.clamp({x}, min={slope})", "{x}.clamp(max={number})", "torch.sqrt(torch.abs({x}) + {small})", "torch.log1p(torch.abs({x}))",
        "torch.log({x} * {x} + {small})", "-{x}", "torch.relu({x}) ** 2", "torch.pow({x}, {power})", "torch.minimum({x}, torch.tanh({x}))",
        "F.threshold({x}, {slope}, {number})", "torch.sign({x}) * torch.sqrt(torch.abs({x}) + {small})", "torch.erf({x})",
        "torch.reciprocal(1.0 + torch.exp(-{x}))",
        "torch.where({x} > {slope}, {x}, {x} * {number})", "torch.atan({x})", "torch.minimum({x}, torch.tensor({number}, device={x}.device))",
        "torch.max({x}, torch.tensor(-{number}, device={x}.device))", "torch.maximum({x}, torch.zeros_like({x}))",
    )),
    "arithmetic": (13, (
        "{x} * {number}", "{number} * {x}", "{x} + {number}", "{x} - {number}", "{number} - {x}", "{x} / {number}",
        "{number} / (1.0 + torch.abs({x}))",
        "({x} + {number}) * {slope}", "{x} * {slope} + {number}", "{x} / {power}", "{x} * -{number}",
    )),
    "parameter": (16, (
        "{x} * {gain}", "{x} * {some_gain}", "{x} / {gain}", "{x} * {one_gain}", "{x} + {shift}", "{x} + {some_shift}", "{x} - {shift}",
        "{x} - {some_shift}", "{x} * torch.exp({shift})", "{x} * F.softplus({gain})", "{x} * torch.sigmoid({some_gain})",
        "{x} + torch.tanh({shift})",
        "{x} * (1.0 + {some_shift})", "{x} / torch.abs({gain})", "{x} + {some_shift} * 2.0", "{x} * {flat_gain}[None, :{nones}]",
        "{x} * {flat_gain}.view(1, -1{ones})", "{x} + {flat_shift}.view(1, {C}{ones})", "{x} + {flat_shift}.reshape(1, -1{ones})",
        "{x} * {flat_gain}[:{nones}]",
    )),
    "prelu": (2, ("{layer}({x}) <- nn.PReLU({C})", "{layer}({x}) <- nn.PReLU({C})", "{layer}({x}) <- nn.PReLU()")),
    "residual": (8, (
        "{x} + {other}", "{x} + {other}", "{other} + {x}", "{x} * {other}", "{x} - {other}", "{other} - {x}", "{x} * torch.sigmoid({other})",
        "torch.maximum({x}, {other})", "torch.sigmoid({x}) * {other}", "{other} + {slope} * {x}", "torch.lerp({other}, {x}, {slope})",
        "{x} * F.silu({other})", "torch.minimum({x}, {other})", "{x} / (1.0 + torch.abs({other}))", "torch.tanh({x}) * torch.sigmoid({other})",
        "{x} * {other} + {other}",
    )),
    "keep": (5, (
        "identity = x\nF.relu({x})", "h = x\ntorch.tanh({x})", "kept = x\nF.gelu({x})", "before = x\n{x} * {number}", "z = x\ntorch.sigmoid({x})",
        "identity = x\nF.silu({x})",
    )),
    "norm": (8, (
        "{layer}({x}) <- nn.BatchNorm{nd}d({C})", "{layer}({x}) <- nn.GroupNorm({divisor}, {C})", "{layer}({x}) <- nn.LayerNorm({F})",
        "F.instance_norm({x})", "{layer}({x}) <- nn.InstanceNorm{nd}d({C}, affine=True)",
        "{layer}({x}) <- nn.LayerNorm([{sizes}])",
        "{layer}({x}) <- nn.LayerNorm({F}, elementwise_affine=False)", "{layer}({x}) <- nn.RMSNorm({F})",
        "{layer}({x}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) <- nn.LayerNorm({C})",
        "{layer}({x}.transpose(1, 2)).transpose(1, 2) <- nn.LayerNorm({C})",
    )),
    "formula_norm": (7, (
        "torch.softmax({x}, dim={back})", "F.softmax({x}, dim={back})", "F.log_softmax({x}, dim={back})", "F.normalize({x}, dim={back})",
        "F.normalize({x}, p=1, dim={back})", "{x} / torch.sqrt(torch.mean({x} ** 2, dim={back}, keepdim=True) + {small})",
        "{x} - {x}.mean(dim={back}, keepdim=True)", "({x} - {x}.mean(dim={back}, keepdim=True)) / ({x}.std(dim={back}, keepdim=True) + {small})",
        "{x} / (torch.norm({x}, p=2, dim={back}, keepdim=True) + {small})", "{x} / ({x}.abs().mean(dim={back}, keepdim=True) + {small})",
        "{x} * torch.rsqrt({x}.pow(2).mean({back}, keepdim=True) + {small})", "{x} - torch.logsumexp({x}, dim={back}, keepdim=True)",
        "{x} - torch.amax({x}, dim={back}, keepdim=True)", "{x} - torch.max({x}, dim={back}, keepdim=True)[0]", "F.softmin({x}, dim={back})",
        "({x} - {x}.mean({back}, keepdim=True)) / torch.sqrt({x}.var({back}, keepdim=True, unbiased=False) + {small})",
        "e = torch.exp(x - x.amax(dim={back}, keepdim=True))\ne / e.sum(dim={back}, keepdim=True)",
        "{x} / ({x}.pow(2).sum({back}, keepdim=True).sqrt() + {small})",
    )),
    "reduction": (9, (
        "torch.mean({x}, dim={back}{keep})", "{x}.mean(dim={back}{keep})", "torch.sum({x}, dim={back}{keep})", "{x}.sum({back}{keep})",
        "torch.amax({x}, dim={back}{keep})", "{x}.amin(dim={back}{keep})", "torch.max({x}, dim={back}{keep})[0]",
        "{x}.max(dim={back}{keep}).values",
        "torch.min({x}, dim={back}{keep})[0]", "torch.logsumexp({x}, dim={back}{keep})", "torch.norm({x}, dim={back}{keep})",
        "{x}.var(dim={back}{keep}{unbiased})", "torch.std({x}, dim={back}{keep}{unbiased})", "torch.prod({x}, dim={back}{keep})",
        "{x}.{reduced}(dim={places}{keep})", "torch.{reduced}({x}, dim={places}{keep})", "{x}.{reduced}(dim={places}{keep})",
    )),
    "pooling": (7, (
        "{layer}({x}) <- nn.MaxPool{nd}d({window})", "{layer}({x}) <- nn.AvgPool{nd}d({window})", "F.max_pool{nd}d({x}, {window})",
        "F.avg_pool{nd}d({x}, {window})", "{layer}({x}) <- nn.AdaptiveAvgPool{nd}d(1)", "{layer}({x}) <- nn.AdaptiveMaxPool{nd}d(1)",
        "{layer}({x}) <- nn.AdaptiveAvgPool{nd}d(2)", "{layer}({x}.unsqueeze(1)).squeeze(1) <- nn.AvgPool1d({group})",
        "{layer}({x}.unsqueeze(1)).squeeze(1) <- nn.MaxPool1d({group})", "{x}.view(x.shape[0], -1, {group}).{reduced}(dim=2)",
        "{x}.reshape(x.shape[0], {group}, -1).{reduced}(dim=-1)", "{x}.unflatten(1, ({group}, -1)).{reduced}(1)",
    )),
    "look": (6, (
        "torch.flatten({x}, 1)", "{x}.flatten(2)", "{x}.flatten(2).transpose(1, 2)", "F.glu({x}, dim={dim})",
        "{x}[:, :{half}] * torch.sigmoid({x}[:, {half}:])", "{x}[:, :, 2:, :-2]", "{x}[..., 1:-1, 1:-1]", "F.pad({x}, (1, 1, 1, 1))",
        "F.pixel_shuffle({x}, 2)", "{x}[:, :, 2:-2]", "{x}[..., :-1]", "{x}.squeeze(-1).squeeze(-1)", "{x}.transpose(1, 2)", "{x}[:, -1]",
        "{x}.reshape(x.shape[0], -1)", "{x}.unsqueeze(1)", "{x}.view(x.shape[0], 8, -1)",
    )),
    "linear": (2, ("{layer}({x}) <- nn.Linear({F}, {out}{bias})",)),
    "matmul": (1, ("{x} @ {matrix}", "torch.matmul({x}, {matrix})", "torch.addmm({row}, {x}, {matrix})")),
    "along_sequence": (0.5, (
        "{layer}({x}.transpose(1, 2)).transpose(1, 2) <- nn.Conv1d({F}, {out}, 3, padding=1)", "torch.bmm({x}, {columns})",
        "torch.matmul({x}, {columns})", "{x} @ {turned}.transpose(1, 2)", "torch.einsum('bik,bkj->bij', {x}, {columns})",
        "torch.einsum('bik,bjk->bij', {x}, {turned})", "torch.baddbmm({row}, {x}, {columns})",
    )),
    "conv": (2, (
        "{layer}({x}) <- nn.Conv{nd}d({C}, {planes}, {kernel}{bias})", "{layer}({x}) <- nn.Conv{nd}d({C}, {planes}, {kernel})",
        "{layer}({x}) <- nn.Conv{nd}d({C}, {C}, 3, padding=1, groups={C})", "{layer}({x}) <- nn.Conv2d({C}, {planes}, {odd_kernel})",
    )),
    "conv_transpose": (1, ("{layer}({x}) <- nn.ConvTranspose{nd}d({C}, {planes}, {turned_kernel}{bias})",)),
    "prototypes": (2.5, (
        "F.linear({x}, F.normalize({bank}, dim=-1))", "F.linear(F.normalize({x}, dim=-1), F.normalize({bank}, dim=1))",
        "torch.matmul({x}, torch.tanh({bank}).t())", "{x} @ ({bank} * 0.1).T", "F.normalize({x}, dim=-1) @ {bank}.t()",
    )),
    "twin": (4, (
        "torch.tanh(A) * torch.sigmoid(B)", "A * torch.sigmoid(B)", "F.silu(A) * B", "A * F.gelu(B)", "torch.sigmoid(A) * B", "F.relu(A) + B",
        "torch.maximum(A, B)", "F.relu(A + B)", "A * B", "F.relu(A) * torch.tanh(B)", "A * F.softplus(B)", "torch.cos(A) + torch.sin(B)",
        "F.elu(A) - B",
        "{x} + A * torch.sigmoid(B)", "torch.relu(A) * F.hardsigmoid(B)",
    )),
    "recurrent": (3, (
        "{layer}({x})[0] <- nn.GRU({F}, {hidden}{layers}, batch_first=True{both})",
        "{layer}({x})[0] <- nn.LSTM({F}, {hidden}{layers}, batch_first=True{both})",
        "{layer}({x})[0] <- nn.RNN({F}, {hidden}{layers}, batch_first=True{both})",
        "{layer}({x})[0][:, -1] <- nn.LSTM({F}, {hidden}, batch_first=True)",
        "x, _ = {layer}(x)\n{x}.mean(dim=1) <- nn.GRU({F}, {hidden}, batch_first=True)",
        "{layer}({x}, {state})[0] <- nn.GRU({F}, {hidden}, batch_first=True)",
        "x, state_out = {layer}(x, {state})\n{x}[:, -1, :] <- nn.RNN({F}, {hidden}, batch_first=True)",
    )),
    "cut": (4, (
        "a, b = x.chunk(2, dim={back})\na * torch.sigmoid(b)", "value, gate = torch.chunk(x, 2, dim={back})\nvalue * F.gelu(gate)",
        "u, v = torch.split(x, {half}, dim={back})\nF.silu(u) * v",
        "h1, h2 = x.split([{half}, {half}], dim={back})\ntorch.tanh(h1) * torch.sigmoid(h2)",
        "left, right = x.narrow({dim}, 0, {half}), x.narrow({dim}, {half}, {half})\ntorch.maximum(left, right)",
        "a, b = x.chunk(2, dim={back})\na - b",
        "u, v = x.chunk(2, dim={back})\nu + {slope} * v", "value, gate = x.chunk(2, dim={back})\nvalue * F.relu(gate)",
        "a, b = torch.chunk(x, 2, dim={back})\ntorch.tanh(b) + a",
    )),
    "gate": (6, (
        "g = x.{reduced}(dim={back}, keepdim=True)\n{x} * torch.sigmoid(g)",
        "s = x.{reduced}(dim={places}, keepdim=True)\n{x} * F.hardsigmoid(s)",
        "gate = torch.sigmoid(x.{reduced}(dim={places}, keepdim=True) * {gain})\n{x} * gate",
        "level = x.{reduced}(dim={back}, keepdim=True)\n{x} - level",
        "summary = torch.tanh(x.{reduced}(dim={back}, keepdim=True) + {one_gain})\n{x} + {x} * summary",
        "g = F.softplus(x.{reduced}(dim={places}, keepdim=True))\n{x} / (1.0 + torch.abs(g))",
        "s = F.relu(x.{reduced}(dim={back}, keepdim=True))\n{x} + s",
    )),
    "shared_input": (4, (
        "{x} + {shared}", "{x} + {shared}", "{x} * {shared}", "{x} - {shared}", "{x}.masked_fill({shared} < 0, {number})",
        "torch.where({shared} > 0, {x}, {slope} * {x})",
    )),
    "flagged": (3, (
        "{x}.masked_fill({flags}, {number})", "{x}.masked_fill(~{shared_flags}, 0.0)", "torch.where({flags}, {x}, {slope} * {x})",
        "{x} * {shared_flags}",
        "torch.where({shared_flags}, {x}, torch.zeros_like({x}))", "{x} * (~{flags})", "torch.where(~{shared_flags}, {x}, {x} * {number})",
        "{x}.masked_fill({whole} == 0, 0.0)", "{x} * ({whole} > 0)", "torch.cumsum({x} * {flags}, dim={back})",
    )),
    "masked": (1.5, (
        "{x} * {rows}", "{x}.masked_fill({rows}.unsqueeze(1) < 0, {number})", "torch.where({rows} > 0, {x}, {slope} * {x})",
        "{x} - {number} * (1.0 - {rows}.unsqueeze(1))", "{x}.masked_fill(~({rows} > 0), 0.0)",
    )),
    "scan": (1.5, (
        "torch.cumsum({x}, dim={back})", "torch.cumprod({x} * {slope}, dim={back})", "torch.cumsum({x}.flip({back}), dim={back}).flip({back})",
        "torch.cumsum({x}, dim={back}) - {x}", "{x} / (1.0 + torch.cumsum(torch.abs({x}), dim={back}))",
    )),
    "dropout": (1.5, ("{layer}({x}) <- nn.Dropout(0.0)",)),
    "cat": (1.5, ("torch.cat([{x}, {other}], dim={dim})",)),
    "flattened": (4, (
        "F.softmax({x}.flatten(2), dim=-1).view_as({x})", "torch.softmax({x}.reshape(x.shape[0], x.shape[1], -1), dim=2).reshape({x}.shape)",
        "F.normalize(torch.flatten({x}, 2), dim=2).reshape({x}.shape)", "torch.logsumexp({x}.flatten(2), dim=2)", "{x}.flatten(2).amax(dim=-1)",
        "torch.flatten({x}, 2).max(dim=2)[0]", "{x}.view(x.shape[0], {C}, -1).mean(dim=-1)", "{x}.flatten(2).std(dim=2)",
    )),
    "entropy": (1.5, (
        "p = F.softmax(x, dim={back})\n-(p * torch.log(p + {small})).sum(dim={back}{keep})",
        "p = F.softmax(x * 0.5, dim={back})\n(p * p).sum(dim={back}{keep})",
        "p = torch.softmax(x, dim={back})\n-(p * F.log_softmax({x}, dim={back})).sum(dim={back}{keep})",
    )),
    "loss": (3, (
        "F.mse_loss({x}, {other})", "F.l1_loss({x}, {other})", "F.smooth_l1_loss({x}, {other})", "F.huber_loss({x}, {other}, delta={number})",
        "F.binary_cross_entropy_with_logits({x}, {other})", "torch.mean(torch.clamp(1 - {x} * {other}, min=0))", "(({x} - {other}) ** 2).mean()",
        'F.mse_loss({x}, {other}, reduction="none").mean(dim=-1)', "torch.log(torch.cosh({x} - {other})).mean()",
        "torch.norm({x} - {other}, dim=1)",
        'F.kl_div(F.log_softmax({x}, dim=-1), F.softmax({other}, dim=-1), reduction="batchmean")', "F.cosine_similarity({x}, {other}, dim=-1)",
        "-(F.softmax({other}, dim=1) * F.log_softmax({x}, dim=1)).sum(dim=1).mean()", "torch.abs({x} - {other}).sum() / {x}.numel()",
        "torch.clamp((({x} - {other}) ** 2).sum(dim=1) - {number}, min=0).mean()",
    )),
    "class_loss": (1, (
        "F.cross_entropy({x}, {labels})", "F.cross_entropy({x}, {labels}, label_smoothing={slope})",
        "F.nll_loss(F.log_softmax({x}, dim=1), {labels})",
        "-F.log_softmax({x}, dim=1).gather(1, {labels}.unsqueeze(1)).squeeze(1)", 'F.cross_entropy({x}, {labels}, reduction="none")',
        "(torch.logsumexp({x}, dim=1) - {x}.gather(1, {labels}.unsqueeze(1)).squeeze(1)).mean()",
    )),
    "triplet_loss": (0.7, (
        "F.relu(torch.norm({x} - {other}, dim=1) - torch.norm({x} - {third}, dim=1) + {number}).mean()",
        "torch.clamp((({x} - {other}) ** 2).sum(dim=1) - (({x} - {third}) ** 2).sum(dim=1) + {number}, min=0).mean()",
        "F.softplus(({x} * {third}).sum(dim=-1) - ({x} * {other}).sum(dim=-1)).mean()",
        "(F.cosine_similarity({x}, {third}, dim=1) - F.cosine_similarity({x}, {other}, dim=1) + {number}).clamp(min=0).mean()",
    )),
    "scores": (1, (
        "torch.matmul({x}, {keys}.transpose(-2, -1)) * 0.125", "({x} @ {keys}.transpose(-1, -2)) / {F} ** 0.5", "{x} @ {keys}.transpose(-2, -1)",
        "torch.bmm({x}, {keys}.transpose(1, 2)) * {F} ** -0.5", "0.1 * torch.matmul({x}, {keys}.transpose(-1, -2))",
    )),
    "mask": (1, (
        "{x} + {added}", "{x} - {added}", "{x} + {hiding}", "{x}.masked_fill({seen}, -1e9)", "{x}.masked_fill(~{seen}, -10000.0)",
        "torch.where({seen}, {x}, -1e4)",
        "{x}.masked_fill({hidden_keys}[:, None, :] == 0, -1e9)", "{x}.masked_fill({hidden_keys}[:, None, None, :] == 0, -10000.0)",
    )),
    "softmax": (1, ("F.softmax({x}, dim=-1)", "torch.softmax({x}, dim=-1)", "{x}.softmax(-1)", "F.log_softmax({x}, dim=-1)")),
    "weighted": (1, ("torch.matmul({x}, {values})", "{x} @ {values}")),
}  # fmt: skip
MAP_LAYERS = ("conv", "conv_transpose")
LAYERS = ("linear", "matmul", "along_sequence")
LOSSES = ("loss", "class_loss", "triplet_loss")
STEPS = tuple(kind for kind in TEMPLATES if kind not in (*LOSSES, "scores", "mask", "softmax", "weighted"))
FORMULA = ("activation", "arithmetic", "parameter", "residual", "keep", "formula_norm", "gate")
