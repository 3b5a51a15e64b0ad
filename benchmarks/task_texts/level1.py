"""Level 1: a hundred single operators, about a third of them on 1.0 to 2.1 billion elements with an output as large."""

from __future__ import annotations

from task_texts.level1_heavy import CONVOLUTIONS, LOSSES, PRODUCTS
from task_texts.text import TaskText

Row = tuple[str, str, str, str, str, str]
"""Name, sizes, shape of the input, forward, init, constructor's arguments."""

_ROWS = "rows=6144/1 columns=262144/64"
_WIDE = "rows=3072/1 columns=524288/64"
_TOKENS = "tokens=131072/1 features=14336/64"
_IMAGES = "batch=96/1 channels=256 height=224/8 width=256/8"
_VIDEO = "batch=40/1 frames=64 height=704/8 width=704/8"
_SEQUENCES = "batch=160/1 length=2048/8 features=6144/64"
_VOLUMES = "batch=56/1 channels=128 depth=32/4 height=64/8 width=80/8"
_R, _T, _I, _V, _S, _D = (
    "rows, columns",
    "tokens, features",
    "batch, channels, height, width",
    "batch, frames, height, width",
    "batch, length, features",
    "batch, channels, depth, height, width",
)

ELEMENTWISE: list[Row] = [
    ("rectified_linear", _ROWS, _R, "torch.relu(x)", "", ""),
    ("leaky_rectifier", _IMAGES, _I, "F.leaky_relu(x, negative_slope=0.07)", "", ""),
    ("logistic_sigmoid", _WIDE, _R, "torch.sigmoid(x)", "", ""),
    ("hyperbolic_tangent", _SEQUENCES, _S, "x.tanh()", "", ""),
    ("gelu_by_error_function", _TOKENS, _T, "F.gelu(x)", "", ""),
    ("gelu_by_tanh", _SEQUENCES, _S, 'F.gelu(x, approximate="tanh")', "", ""),
    ("silu_of_images", _IMAGES, _I, "self.act(x)", "self.act = nn.SiLU()", ""),
    ("mish_of_volumes", _VOLUMES, _D, "F.mish(x)", "", ""),
    ("hard_swish", _VIDEO, _V, "F.hardswish(x)", "", ""),
    ("hard_sigmoid", _ROWS, _R, "F.hardsigmoid(x)", "", ""),
    ("softplus_with_beta", _WIDE, _R, "F.softplus(x, beta=1.5, threshold=18.0)", "", ""),
    ("softsign", _TOKENS, _T, "x / (1 + torch.abs(x))", "", ""),
    ("exponential_linear_unit", _VIDEO, _V, "F.elu(x, alpha=0.9)", "", ""),
    ("scaled_exponential_linear_unit", _ROWS, _R, "torch.selu(x)", "", ""),
    ("continuous_exponential_linear_unit", "points=1280000000/1024", "points", "F.celu(x, alpha=1.3)", "", ""),
    ("clamped_to_an_interval", _SEQUENCES, _S, "torch.clamp(x, min=-0.75, max=1.25)", "", ""),
    ("log_of_sigmoid", _WIDE, _R, "F.logsigmoid(x)", "", ""),
    ("rectifier_up_to_six", _VOLUMES, _D, "F.relu6(x)", "", ""),
    ("squared_rectifier", _TOKENS, _T, "torch.square(torch.relu(x))", "", ""),
    ("soft_shrinkage", _ROWS, _R, "F.softshrink(x, 0.35)", "", ""),
    ("sigmoid_gated_by_factor", _SEQUENCES, _S, "x * torch.sigmoid(1.702 * x)", "", ""),
    (
        "rectifier_with_learned_slopes",
        _IMAGES,
        _I,
        "self.act(x)",
        "self.act = nn.PReLU(num_parameters=channels, init=0.2)",
        "channels",
    ),
    (
        "gain_and_shift_of_columns",
        _TOKENS,
        _T,
        "x * self.gain + self.shift",
        "self.gain = nn.Parameter(torch.rand(features) + 0.5)\nself.shift = nn.Parameter(torch.randn(features))",
        "features",
    ),
]

NORMS: list[Row] = [
    ("layer_norm_of_tokens", _TOKENS, _T, "self.norm(x)", "self.norm = nn.LayerNorm(features, eps=1e-6)", "features"),
    (
        "rms_norm_of_tokens",
        _SEQUENCES,
        _S,
        "x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight",
        "self.weight = nn.Parameter(torch.ones(features))\nself.eps = 1e-6",
        "features",
    ),
    ("batch_norm_of_images", _IMAGES, _I, "self.bn(x)", "self.bn = nn.BatchNorm2d(channels)", "channels"),
    ("instance_norm_of_frames", _VIDEO, _V, "self.norm(x)", "self.norm = nn.InstanceNorm2d(frames, affine=True)", "frames"),
    ("group_norm_of_images", _IMAGES, _I, "self.norm(x)", "self.norm = nn.GroupNorm(16, channels)", "channels"),
    ("rows_of_unit_length", _ROWS, _R, "F.normalize(x, p=2.0, dim=1)", "", ""),
    ("rows_of_unit_mean_magnitude", _WIDE, _R, "x / x.abs().mean(dim=1, keepdim=True)", "", ""),
    ("whole_tensor_of_unit_norm", "rows=4608/1 columns=229376/64", _R, "x / torch.linalg.vector_norm(x)", "", ""),
    (
        "standardised_rows",
        "rows=2048/1 columns=131072/64",
        _R,
        "(x - x.mean(dim=1, keepdim=True)) / (x.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt()",
        "",
        "",
    ),
    (
        "rows_between_zero_and_one",
        "rows=1536/1 columns=98304/64",
        _R,
        "low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)\nreturn (x - low) / (high - low + 1e-6)",
        "",
        "",
    ),
    ("batch_norm_of_volumes", _VOLUMES, _D, "self.bn(x)", "self.bn = nn.BatchNorm3d(channels)", "channels"),
    ("softmax_of_rows", "rows=5120/1 columns=294912/64", _R, "torch.softmax(x, dim=1)", "", ""),
    ("log_softmax_over_a_vocabulary", "tokens=8192/1 words=151936/64", "tokens, words", "F.log_softmax(x, dim=-1)", "", ""),
    (
        "softmax_over_channels",
        "batch=32/1 channels=150 height=512/8 width=512/8",
        _I,
        "self.softmax(x)",
        "self.softmax = nn.Softmax2d()",
        "",
    ),
]

SCANS: list[Row] = [
    ("running_sum", "rows=24576/1 columns=49152/64", _R, "torch.cumsum(x, dim=1)", "", ""),
    ("running_product", "rows=4096/1 columns=32768/64", _R, "torch.cumprod(x, dim=1)", "", ""),
    ("running_sum_from_the_end", "rows=20480/1 columns=57344/64", _R, "x.flip(1).cumsum(1).flip(1)", "", ""),
    (
        "running_sum_of_what_came_before",
        "rows=6144/1 columns=65536/64",
        _R,
        "return torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x, dim=1)[:, :-1]), dim=1)",
        "",
        "",
    ),
    ("running_maximum", "rows=8192/1 columns=24576/64", _R, "torch.cummax(x, dim=1).values", "", ""),
]

REDUCTIONS: list[Row] = [
    ("sum_over_the_middle", "batch=56/1 length=3072/8 features=3584/64", _S, "torch.sum(x, dim=1, keepdim=True)", "", ""),
    ("mean_over_the_middle", "batch=64/1 length=2048/8 features=4608/64", _S, "x.mean(dim=1)", "", ""),
    ("largest_of_a_dimension", "batch=144/1 length=2560/8 features=3072/64", _S, "torch.amax(x, dim=1)", "", ""),
    ("smallest_of_a_dimension", "batch=64/1 length=3072/8 features=3072/64", _S, "x.min(dim=2).values", "", ""),
    ("place_of_the_largest", "batch=48/1 length=4096/8 features=3328/64", _S, "torch.argmax(x, dim=1)", "", ""),
    ("place_of_the_smallest", "batch=40/1 length=4096/8 features=3840/64", _S, "x.argmin(dim=-1)", "", ""),
    ("product_of_a_dimension", "batch=256/1 length=1024/8 features=1536/64", _S, "torch.prod(x * 0.1 + 1.0, dim=1)", "", ""),
    ("variance_of_channels", "batch=64/1 channels=192 height=256/8 width=256/8", _I, "x.var(dim=(0, 2, 3))", "", ""),
    ("log_of_summed_exponentials", "rows=16384/1 columns=50304/64", _R, "torch.logsumexp(x, dim=1)", "", ""),
    ("length_of_each_row", "rows=12288/1 columns=81920/64", _R, "torch.linalg.vector_norm(x, dim=-1)", "", ""),
    ("top_eight_of_a_row", "rows=32768/1 columns=4096/64", _R, "torch.topk(x, k=8, dim=1).values", "", ""),
]

POOLS: list[Row] = [
    (
        "max_pool_of_signals",
        "batch=32/1 channels=192 length=98304/64",
        "batch, channels, length",
        "F.max_pool1d(x, 8, stride=2, padding=3)",
        "",
        "",
    ),
    (
        "max_pool_of_images",
        "batch=48/1 channels=64 height=512/8 width=512/8",
        _I,
        "self.pool(x)",
        "self.pool = nn.MaxPool2d(3, stride=2, padding=1)",
        "",
    ),
    (
        "max_pool_of_volumes",
        "batch=12/1 channels=48 depth=96/8 height=128/8 width=128/8",
        _D,
        "F.max_pool3d(x, 3, stride=2, dilation=1, padding=1)",
        "",
        "",
    ),
    (
        "average_pool_of_signals",
        "batch=72/1 channels=128 length=81920/64",
        "batch, channels, length",
        "self.pool(x)",
        "self.pool = nn.AvgPool1d(6, stride=1, padding=2)",
        "",
    ),
    ("average_pool_of_images", "batch=24/1 channels=80 height=640/16 width=640/16", _I, "F.avg_pool2d(x, 9)", "", ""),
    (
        "average_pool_of_volumes",
        "batch=10/1 channels=40 depth=96/8 height=128/8 width=160/8",
        _D,
        "F.avg_pool3d(x, 3, stride=2, padding=1)",
        "",
        "",
    ),
    (
        "pooled_to_seven_by_seven",
        "batch=96/1 channels=512 height=112/14 width=112/14",
        _I,
        "F.adaptive_avg_pool2d(x, (7, 7))",
        "",
        "",
    ),
]


def rows() -> list[TaskText]:
    """In an order that mixes families, so that any stretch of it is like the whole."""
    plain = [*ELEMENTWISE, *NORMS, *SCANS, *REDUCTIONS, *POOLS]
    texts = [
        TaskText(name, 1, sizes, (shape,), forward, init, arguments) for name, sizes, shape, forward, init, arguments in plain
    ]
    texts += [*CONVOLUTIONS, *PRODUCTS, *LOSSES]
    return [texts[place * 37 % len(texts)] for place in range(len(texts))]
