"""Templates of the steps of a chain: operators as text with `{x}` for the current value, and names of layers and parameters."""

from __future__ import annotations

ACTIVATIONS = (
    "torch.relu({x})", "F.leaky_relu({x}, {slope})", "F.elu({x}, alpha={number})", "F.selu({x})", "F.gelu({x})", 'F.gelu({x}, approximate="tanh")',
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
)  # fmt: skip
NUMBERS = (
    "{x} * {number}", "{number} * {x}", "{x} + {number}", "{x} - {number}", "{number} - {x}", "{x} / {number}", "{number} / (1.0 + torch.abs({x}))",
    "({x} + {number}) * {slope}", "{x} * {slope} + {number}", "{x} / {power}", "{x} * -{number}",
)  # fmt: skip
WHOLE_LOSSES = (
    "F.mse_loss({x}, {y})", "F.l1_loss({x}, {y})", "F.smooth_l1_loss({x}, {y})", "F.huber_loss({x}, {y}, delta={number})",
    "F.binary_cross_entropy_with_logits({x}, {y})", "torch.mean(torch.clamp(1 - {x} * {y}, min=0))", "(({x} - {y}) ** 2).mean()",
    "torch.abs({x} - {y}).sum() / {x}.numel()", 'F.mse_loss({x}, {y}, reduction="sum")', "F.mse_loss({x}, {y}, reduction=\"none\").mean(dim=-1)",
    "torch.log(torch.cosh({x} - {y})).mean()", "torch.mean(torch.exp({y}) * ({y} - {x}))",
)  # fmt: skip
ROW_LOSSES = (
    'F.kl_div(F.log_softmax({x}, dim=-1), F.softmax({y}, dim=-1), reduction="batchmean")', "torch.mean(1 - F.cosine_similarity({x}, {y}, dim=1))",
    "F.cosine_similarity({x}, {y}, dim=-1)", "-(F.softmax({y}, dim=1) * F.log_softmax({x}, dim=1)).sum(dim=1).mean()",
    "torch.clamp((({x} - {y}) ** 2).sum(dim=1) - {number}, min=0).mean()", "torch.norm({x} - {y}, dim=1)", "({x} * {y}).sum(dim=1, keepdim=True)",
)  # fmt: skip
LABELLED = (
    "F.cross_entropy({x}, {t})", "F.cross_entropy({x}, {t}, label_smoothing={slope})", "F.nll_loss(F.log_softmax({x}, dim=1), {t})",
    "-F.log_softmax({x}, dim=1).gather(1, {t}.unsqueeze(1)).squeeze(1)", "-torch.gather(F.log_softmax({x}, dim=-1), 1, {t}[:, None]).mean()",
    "(torch.logsumexp({x}, dim=1) - {x}.gather(1, {t}.unsqueeze(1)).squeeze(1)).mean()", 'F.cross_entropy({x}, {t}, reduction="none")',
    "F.cross_entropy({x} * {number}, {t})",
)  # fmt: skip
"""Against the number of a class for each sample."""
TRIPLETS = (
    "F.relu(torch.norm({x} - {y}, dim=1) - torch.norm({x} - {z}, dim=1) + {number}).mean()",
    "torch.clamp((({x} - {y}) ** 2).sum(dim=1) - (({x} - {z}) ** 2).sum(dim=1) + {number}, min=0).mean()",
    "F.relu(((({x} - {y}) ** 2).sum(dim=1) + {small}).sqrt() - ((({x} - {z}) ** 2).sum(dim=1) + {small}).sqrt() + {number}).mean()",
    "torch.relu(({x} * {z}).sum(dim=1) - ({x} * {y}).sum(dim=1) + {number})", "F.softplus(({x} * {z}).sum(dim=-1) - ({x} * {y}).sum(dim=-1)).mean()",
    "(F.cosine_similarity({x}, {z}, dim=1) - F.cosine_similarity({x}, {y}, dim=1) + {number}).clamp(min=0).mean()",
    "torch.abs({x} - {y}).mean(dim=1) - torch.abs({x} - {z}).mean(dim=1)",
)  # fmt: skip
"""Against two other inputs, of which one is to be nearer."""
FLAGGED = (
    "{x}.masked_fill(M, {number})", "{x}.masked_fill(~M, 0.0)", "{x}.masked_fill(~M, 0)", "torch.where(M, {x}, {slope} * {x})", "{x} * M",
    "torch.where(M, {x}, torch.zeros_like({x}))", "{x} * (~M)", "torch.where(~M, {x}, {x} * {number})",
    '{x}.masked_fill(M, float("-inf")).softmax(dim=-1)',
)  # fmt: skip
FROM_PARAMETER = (
    "torch.exp(P)",
    "F.softplus(P)",
    "torch.sigmoid(P)",
    "torch.tanh(P)",
    "(1.0 + P)",
    "torch.abs(P)",
    "(P * 2.0)",
)
"""What is made of a parameter before it meets what flows."""
JOINED = (
    "torch.tanh(A) * torch.sigmoid(B)", "torch.tanh(A) * torch.sigmoid(B)", "A * torch.sigmoid(B)", "F.silu(A) * B", "F.silu(B) * A", "A * F.gelu(B)",
    "F.gelu(A) * B", "torch.sigmoid(A) * B", "F.relu(A) + B", "A + B", "torch.maximum(A, B)", "F.relu(A + B)", "A * B", "F.relu(A) * torch.tanh(B)",
    "A * F.softplus(B)", "torch.cos(A) + torch.sin(B)", "F.elu(A) - B", "torch.relu(A) * F.hardsigmoid(B)",
)  # fmt: skip
"""Two layers over the same values."""
LAYERS = (
    *(
        "conv1x1",
        "conv3x3",
        "branch1x1",
        "branch3x3",
        "fc1",
        "fc2",
        "conv1",
        "conv2",
        "layer1",
        "dw3x3",
        "reduce5",
        "stage2_conv",
        "proj_2a",
        "l1",
    ),
    "conv",
    "proj",
    "fc",
    "layer",
    "lift",
    "mix",
    "head",
    "body",
    "block",
    "stem",
    "trunk",
    "encode",
    "inner",
    "lin",
    "filter",
    "expand",
)
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
