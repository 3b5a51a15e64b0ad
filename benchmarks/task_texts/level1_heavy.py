"""Level 1's convolutions, matrix products and losses."""

from __future__ import annotations

from task_texts.text import TaskText

_C1, _C2, _C3 = "in_channels, length", "in_channels, height, width", "in_channels, depth, height, width"
_IO = "in_channels, out_channels"


def _conv(name: str, sizes: str, shape: str, made: str, arguments: str = _IO) -> TaskText:
    return TaskText(name, 1, sizes, (f"batch, {shape}",), "self.conv(x)", f"self.conv = nn.{made}", arguments)


CONVOLUTIONS: list[TaskText] = [
    _conv(
        "convolved_signals",
        "batch=48/1 length=49152/64 in_channels=64 out_channels=96",
        _C1,
        "Conv1d(in_channels, out_channels, 5, padding=2)",
    ),
    _conv(
        "strided_dilated_signals",
        "batch=64/1 length=65536/64 in_channels=48 out_channels=96",
        _C1,
        "Conv1d(in_channels, out_channels, 7, stride=3, dilation=4)",
    ),
    _conv(
        "three_by_three",
        "batch=24/1 height=384/8 width=384/8 in_channels=48 out_channels=96",
        _C2,
        "Conv2d(in_channels, out_channels, 3, padding=1)",
    ),
    _conv(
        "pointwise",
        "batch=20/1 height=640/8 width=512/8 in_channels=96 out_channels=160",
        _C2,
        "Conv2d(in_channels, out_channels, kernel_size=1, bias=False)",
    ),
    _conv(
        "unequal_window",
        "batch=24/1 height=448/8 width=320/8 in_channels=40 out_channels=72",
        _C2,
        "Conv2d(in_channels, out_channels, (5, 9), padding=(2, 4))",
    ),
    _conv(
        "dilated_window",
        "batch=16/1 height=416/8 width=416/8 in_channels=56 out_channels=80",
        _C2,
        "Conv2d(in_channels, out_channels, 3, padding=(3, 6), dilation=(3, 6))",
    ),
    _conv(
        "stem_of_an_image_network",
        "batch=256/1 height=288/16 width=288/16 in_channels=3 out_channels=80",
        _C2,
        "Conv2d(in_channels, out_channels, 7, stride=2, padding=3, bias=False)",
    ),
    _conv(
        "patches_of_an_image",
        "batch=384/1 height=336/14 width=336/14 in_channels=3 out_channels=1024",
        _C2,
        "Conv2d(in_channels, out_channels, 14, stride=14)",
    ),
    _conv(
        "depthwise",
        "batch=40/1 height=448/8 width=448/8 channels=96",
        "channels, height, width",
        "Conv2d(channels, channels, 3, padding=1, groups=channels)",
        "channels",
    ),
    _conv(
        "depthwise_seven_by_seven",
        "batch=64/1 height=224/8 width=224/8 channels=128",
        "channels, height, width",
        "Conv2d(channels, channels, 7, padding=3, groups=channels)",
        "channels",
    ),
    TaskText(
        "depthwise_then_pointwise",
        1,
        "batch=24/1 height=384/8 width=384/8 in_channels=64 out_channels=128",
        (f"batch, {_C2}",),
        "self.pointwise(self.depthwise(x))",
        """
        self.depthwise = nn.Conv2d(in_channels, in_channels, 5, padding=2, groups=in_channels)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1)
        """,
        _IO,
    ),
    _conv(
        "in_eight_groups",
        "batch=32/1 height=256/8 width=256/8 in_channels=128 out_channels=128",
        _C2,
        "Conv2d(in_channels, out_channels, 3, padding=1, groups=8)",
    ),
    _conv(
        "volumes",
        "batch=8/1 depth=48/4 height=96/8 width=96/8 in_channels=24 out_channels=56",
        _C3,
        "Conv3d(in_channels, out_channels, 3, padding=1)",
    ),
    _conv(
        "unequal_volumes",
        "batch=8/1 depth=64/8 height=80/8 width=112/8 in_channels=16 out_channels=48",
        _C3,
        "Conv3d(in_channels, out_channels, (3, 5, 7))",
    ),
    _conv(
        "transposed_signals",
        "batch=40/1 length=65536/64 in_channels=96 out_channels=48",
        _C1,
        "ConvTranspose1d(in_channels, out_channels, 4, stride=2, padding=1)",
    ),
    _conv(
        "transposed",
        "batch=12/1 height=384/8 width=384/8 in_channels=64 out_channels=48",
        _C2,
        "ConvTranspose2d(in_channels, out_channels, 3)",
    ),
    _conv(
        "transposed_twofold",
        "batch=16/1 height=192/8 width=256/8 in_channels=96 out_channels=48",
        _C2,
        "ConvTranspose2d(in_channels, out_channels, 4, stride=2, padding=1, groups=4)",
    ),
    _conv(
        "transposed_volumes",
        "batch=6/1 depth=32/4 height=64/8 width=64/8 in_channels=40 out_channels=24",
        _C3,
        "ConvTranspose3d(in_channels, out_channels, 3, padding=1)",
    ),
    _conv(
        "transposed_volumes_twofold",
        "batch=8/1 depth=16/4 height=48/8 width=64/8 in_channels=64 out_channels=32",
        _C3,
        "ConvTranspose3d(in_channels, out_channels, (2, 4, 4), stride=(2, 2, 2), padding=(0, 1, 1), groups=2)",
    ),
]

_AB = "a, b"


def _two(name: str, sizes: str, inputs: tuple[str, ...], forward: str, takes: str = _AB) -> TaskText:
    return TaskText(name, 1, sizes, inputs, forward, takes=takes)


PRODUCTS: list[TaskText] = [
    _two("square_product", "size=6144/64", ("size, size", "size, size"), "torch.matmul(a, b)"),
    _two(
        "product_over_a_long_inner_dimension",
        "rows=384/8 inner=786432/64 columns=448/8",
        ("rows, inner", "inner, columns"),
        "a @ b",
    ),
    _two("tall_times_narrow", "rows=49152/64 inner=48", ("rows, inner", "inner, rows"), "torch.mm(a, b)"),
    _two("rectangular_product", "rows=3072/64 inner=5120/64 columns=7168/64", ("rows, inner", "inner, columns"), "a @ b"),
    _two(
        "many_small_products",
        "batch=192/1 rows=640/8 inner=1280/8 columns=896/8",
        ("batch, rows, inner", "batch, inner, columns"),
        "torch.bmm(a, b)",
    ),
    _two("matrix_times_vector", "rows=3072/8 inner=524288/64", ("rows, inner", "inner"), "torch.mv(a, b)"),
    _two("first_one_transposed", "rows=5120/64 inner=6144/64 columns=3072/64", ("inner, rows", "inner, columns"), "a.t() @ b"),
    _two(
        "second_one_transposed",
        "rows=4608/64 inner=7168/64 columns=3840/64",
        ("rows, inner", "columns, inner"),
        "F.linear(a, b)",
    ),
    _two("upper_triangles", "size=5632/64", ("size, size", "size, size"), "torch.triu(torch.triu(a) @ torch.triu(b))"),
    _two("lower_triangles", "size=4608/64", ("size, size", "size, size"), "torch.tril(a).matmul(torch.tril(b)).tril()"),
    _two("diagonal_times_matrix", "rows=8192/64 columns=98304/64", ("rows", "rows, columns"), "a.unsqueeze(1) * b"),
    _two(
        "sequence_times_matrix",
        "batch=24/1 length=1536/8 inner=3072/64 columns=1280/64",
        ("batch, length, inner", "inner, columns"),
        "torch.matmul(a, b)",
    ),
    _two(
        "grid_times_matrix",
        "batch=12/1 height=192/8 width=320/8 inner=384 columns=512",
        ("batch, height, width, inner", "inner, columns"),
        'torch.einsum("bhwk,kn->bhwn", a, b)',
    ),
    _two(
        "attention_of_heads",
        "batch=24/1 heads=24 length=1024/8 width=96",
        ("batch, heads, length, width",) * 3,
        "F.scaled_dot_product_attention(q, k, v)",
        "q, k, v",
    ),
    _two(
        "masked_running_sum",
        "rows=4096/1 columns=40960/64",
        ("rows, columns", "torch.randint(0, 2, (rows, columns)).bool()"),
        "torch.cumsum(x * mask, dim=-1)",
        "x, mask",
    ),
]

_PT = "predicted, target"
LOSSES: list[TaskText] = [
    _two(
        "cross_entropy_of_many_rows",
        "rows=24000000/64 classes=10",
        ("rows, classes", "torch.randint(0, classes, (rows,))"),
        "F.cross_entropy(predicted, target)",
        _PT,
    ),
    _two(
        "mean_squared_error",
        "rows=32768/1 columns=12288/64",
        ("rows, columns", "rows, columns"),
        "torch.mean((predicted - target) ** 2)",
        _PT,
    ),
    _two(
        "huber_error",
        "rows=40960/1 columns=10240/64",
        ("rows, columns", "rows, columns"),
        "F.smooth_l1_loss(predicted, target, beta=0.7)",
        _PT,
    ),
    _two(
        "divergence_of_distributions",
        "rows=12288/1 columns=24576/64",
        ("torch.rand(rows, columns).softmax(dim=-1)", "torch.rand(rows, columns).softmax(dim=-1)"),
        'F.kl_div(predicted.log(), target, reduction="batchmean")',
        _PT,
    ),
    _two(
        "hinge_of_rows",
        "rows=40000000/64 columns=4",
        ("rows, columns", "torch.randint(0, 2, (rows, 1)).float() * 2 - 1"),
        "torch.clamp(1 - predicted * target, min=0).mean()",
        _PT,
    ),
    _two(
        "distance_of_triplets",
        "rows=40960/1 columns=6144/64",
        ("rows, columns", "rows, columns", "rows, columns"),
        "F.triplet_margin_loss(anchor, near, far, margin=0.8)",
        "anchor, near, far",
    ),
]
