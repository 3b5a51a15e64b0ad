"""Level 2: a hundred convolutions and matrix products, each followed by two to five operators that one kernel could take along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from task_texts.text import TaskText


@dataclass(frozen=True)
class Head:
    """What comes first. `{0}`, `{1}`, … are the numbers of a row."""

    sizes: str
    shape: str
    made: str
    channels: str
    """The name of its output's channels, which stand at dimension 1."""
    space: int
    """Dimensions behind the channels."""


_S2, _S3 = "in_channels, height, width", "in_channels, depth, height, width"
HEADS = {
    "linear": Head(
        "batch={0}/8 in_features={1} out_features={2}",
        "batch, in_features",
        "Linear(in_features, out_features)",
        "out_features",
        0,
    ),
    "conv1d": Head(
        "batch={0}/1 length={3}/64 in_channels={1} out_channels={2}",
        "batch, in_channels, length",
        "Conv1d(in_channels, out_channels, {4}, padding={4} // 2)",
        "out_channels",
        1,
    ),
    "conv2d": Head(
        "batch={0}/1 height={3}/16 width={3}/16 in_channels={1} out_channels={2}",
        f"batch, {_S2}",
        "Conv2d(in_channels, out_channels, {4}, padding={4} // 2)",
        "out_channels",
        2,
    ),
    "pointwise": Head(
        "batch={0}/1 height={3}/16 width={3}/16 in_channels={1} out_channels={2}",
        f"batch, {_S2}",
        "Conv2d(in_channels, out_channels, 1, bias=False)",
        "out_channels",
        2,
    ),
    "strided": Head(
        "batch={0}/1 height={3}/16 width={3}/16 in_channels={1} out_channels={2}",
        f"batch, {_S2}",
        "Conv2d(in_channels, out_channels, {4}, stride=2, padding={4} // 2)",
        "out_channels",
        2,
    ),
    "depthwise": Head(
        "batch={0}/1 height={3}/16 width={3}/16 out_channels={1}",
        "batch, out_channels, height, width",
        "Conv2d(out_channels, out_channels, {2}, padding={2} // 2, groups=out_channels)",
        "out_channels",
        2,
    ),
    "upsample": Head(
        "batch={0}/1 height={3}/16 width={3}/16 in_channels={1} out_channels={2}",
        f"batch, {_S2}",
        "ConvTranspose2d(in_channels, out_channels, 4, stride=2, padding=1)",
        "out_channels",
        2,
    ),
    "transposed": Head(
        "batch={0}/1 height={3}/16 width={3}/16 in_channels={1} out_channels={2}",
        f"batch, {_S2}",
        "ConvTranspose2d(in_channels, out_channels, {4})",
        "out_channels",
        2,
    ),
    "conv3d": Head(
        "batch={0}/1 depth={3}/4 height={4}/8 width={4}/8 in_channels={1} out_channels={2}",
        f"batch, {_S3}",
        "Conv3d(in_channels, out_channels, 3, padding=1)",
        "out_channels",
        3,
    ),
    "upsample3d": Head(
        "batch={0}/1 depth={3}/4 height={4}/8 width={4}/8 in_channels={1} out_channels={2}",
        f"batch, {_S3}",
        "ConvTranspose3d(in_channels, out_channels, 3, stride=2, padding=1, output_padding=1)",
        "out_channels",
        3,
    ),
}

PLAIN = {
    "relu": "torch.relu(x)",
    "leaky": "F.leaky_relu(x, negative_slope=0.12)",
    "gelu": "F.gelu(x)",
    "silu": "x * torch.sigmoid(x)",
    "sigmoid": "torch.sigmoid(x)",
    "tanh": "torch.tanh(x)",
    "mish": "F.mish(x)",
    "hardswish": "F.hardswish(x)",
    "hardtanh": "F.hardtanh(x, min_val=-0.9, max_val=1.1)",
    "softplus": "F.softplus(x)",
    "elu": "F.elu(x)",
    "clamp": "torch.clamp(x, min=-0.6, max=1.4)",
    "atleast": "torch.clamp_min(x, 0.05)",
    "double": "x * 2.0",
    "divide": "x / 1.75",
    "subtract": "x - 0.35",
    "residual": "x + skip",
    "abs": "torch.abs(x)",
    "softmax": "torch.softmax(x, dim=1)",
    "logsoftmax": "F.log_softmax(x, dim=1)",
    "centred": "x - x.mean(dim=1, keepdim=True)",
    "logsumexp": "torch.logsumexp(x, dim=1, keepdim=True)",
    "smallest": "torch.amin(x, dim=1, keepdim=True)",
    "largest": "torch.amax(x, dim=1, keepdim=True)",
    "sum": "x.sum(dim=1, keepdim=True)",
    "mean": "torch.mean(x, dim=1, keepdim=True)",
    "pooled": "x.mean(dim=tuple(range(2, x.dim())), keepdim=True)",
}
"""One expression of x; `skip` is what the head gave."""

_N = {0: "1d", 1: "1d", 2: "2d", 3: "3d"}
MADE: dict[str, Callable[[Head], tuple[str, str]]] = {
    "bias": lambda head: (f"self.bias = nn.Parameter(torch.randn({_param(head)}) * 0.1)", "x + self.bias"),
    "gain": lambda head: (f"self.gain = nn.Parameter(torch.rand({_param(head)}) + 0.5)", "x * self.gain"),
    "scale": lambda head: ("self.scale = nn.Parameter(torch.tensor(0.7))", "x * self.scale"),
    "batchnorm": lambda head: (f"self.bn = nn.BatchNorm{_N[head.space]}({head.channels})", "self.bn(x)"),
    "groupnorm": lambda head: (f"self.group_norm = nn.GroupNorm(8, {head.channels})", "self.group_norm(x)"),
    "layernorm": lambda head: (f"self.layer_norm = nn.LayerNorm({head.channels})", "self.layer_norm(x)"),
    "instancenorm": lambda head: (
        f"self.instance_norm = nn.InstanceNorm{_N[head.space]}({head.channels})",
        "self.instance_norm(x)",
    ),
    "maxpool": lambda head: (f"self.max_pool = nn.MaxPool{_N[head.space]}(2)", "self.max_pool(x)"),
    "avgpool": lambda head: (f"self.avg_pool = nn.AvgPool{_N[head.space]}(2)", "self.avg_pool(x)"),
    "dropout": lambda head: ("self.dropout = nn.Dropout(0.15)", "self.dropout(x)"),
}
"""What needs a line in the constructor."""

ROWS = """
linear 16384 4096 4096 : bias gelu scale
linear 32768 2048 3072 : silu divide clamp
linear 8192 8192 4096 : batchnorm scale softmax
linear 24576 3072 3072 : subtract gain relu
linear 16384 2560 5120 : groupnorm leaky double
linear 12288 6144 3072 : mish mish bias
linear 20480 4096 2048 : gelu softmax
linear 49152 1536 2304 : tanh scale residual
linear 32768 3072 1024 : largest sigmoid sum
linear 16384 5120 2560 : layernorm gelu dropout
linear 10240 7168 3584 : sigmoid sum logsumexp
linear 28672 2048 4096 : softplus tanh divide
linear 65536 1024 2048 : relu residual layernorm
linear 40960 1792 1792 : gain hardtanh gelu groupnorm
linear 14336 4608 4608 : clamp leaky scale bias
linear 36864 2304 1152 : scale logsoftmax
linear 18432 3584 3584 : batchnorm gelu relu
linear 22528 2816 2816 : hardswish divide groupnorm hardtanh
linear 24576 4096 1024 : smallest subtract bias
linear 57344 1280 2560 : centred gelu gain mish
linear 16384 3328 6656 : silu bias layernorm
linear 26624 3328 3328 : abs double relu logsumexp leaky gelu
conv1d 32 64 128 24576 5 : batchnorm relu maxpool
conv1d 48 96 96 16384 7 : gelu residual instancenorm
conv1d 24 80 160 32768 3 : groupnorm silu
conv1d 40 128 64 16384 9 : tanh scale centred avgpool
conv2d 32 32 64 192 3 : relu bias
conv2d 24 48 96 160 3 : hardswish maxpool groupnorm
conv2d 16 64 64 256 3 : subtract tanh avgpool
conv2d 48 24 64 176 5 : smallest tanh tanh
conv2d 20 64 128 144 3 : batchnorm scale
conv2d 32 40 80 176 3 : softplus tanh gain batchnorm
conv2d 28 48 64 192 3 : divide leaky
conv2d 64 16 48 208 3 : instancenorm divide relu
conv2d 36 32 72 176 3 : groupnorm tanh hardswish residual logsumexp
conv2d 16 96 96 176 3 : clamp scale maxpool gain
conv2d 24 56 56 224 3 : mish subtract
conv2d 40 48 48 192 5 : gelu pooled
conv2d 30 64 80 160 3 : avgpool sigmoid pooled
conv2d 18 80 80 208 3 : silu residual batchnorm
conv2d 44 24 56 224 3 : mean bias elu
conv2d 22 72 72 176 7 : gain leaky gelu
conv2d 26 48 88 160 3 : hardtanh double maxpool
conv2d 34 40 64 208 3 : abs subtract hardswish
conv2d 12 128 128 160 3 : batchnorm relu dropout
conv2d 52 32 32 240 3 : centred silu scale
pointwise 24 96 192 160 : batchnorm hardswish
pointwise 32 128 64 192 : gain bias relu
pointwise 16 192 96 224 : groupnorm silu residual
pointwise 40 64 128 176 : clamp divide
pointwise 20 160 80 208 : softmax bias scale
pointwise 28 112 112 176 : instancenorm leaky
strided 48 32 96 256 3 : batchnorm relu
strided 64 24 80 224 5 : gelu groupnorm
strided 32 64 128 256 3 : mish scale bias
strided 96 3 96 320 7 : batchnorm relu maxpool
strided 56 40 80 240 3 : centred tanh
depthwise 48 96 3 192 : batchnorm hardswish
depthwise 32 128 5 176 : bias silu residual
depthwise 24 192 7 160 : groupnorm gelu scale
depthwise 64 64 3 224 : clamp gain
depthwise 40 80 5 208 : instancenorm relu avgpool
upsample 24 96 48 112 : bias relu
upsample 16 128 64 128 : batchnorm tanh maxpool tanh groupnorm
upsample 32 64 48 112 : gelu groupnorm
upsample 20 96 64 104 : softmax bias double sigmoid
upsample 28 80 40 120 : smallest sum gelu bias
upsample 36 64 32 128 : mish subtract hardtanh scale
upsample 18 112 56 120 : pooled bias logsumexp
upsample 12 160 80 112 : leaky gain leaky maxpool
transposed 24 64 96 160 3 : bias clamp double clamp divide
transposed 32 48 64 176 5 : subtract tanh
transposed 20 80 64 176 3 : pooled logsumexp sum
transposed 28 64 64 160 3 : batchnorm silu
transposed 16 96 80 192 3 : double pooled
transposed 40 40 56 176 4 : gelu scale residual
conv3d 8 16 48 32 96 : relu leaky gelu sigmoid bias
conv3d 12 24 48 24 80 : groupnorm mean
conv3d 6 32 64 32 80 : softmax maxpool maxpool
conv3d 10 16 64 28 88 : leaky double clamp gelu
conv3d 8 24 64 24 96 : softmax smallest
conv3d 16 12 40 24 88 : scale tanh bias sigmoid
conv3d 12 16 56 24 88 : divide maxpool pooled bias sum
conv3d 6 40 56 28 88 : mish tanh
conv3d 9 24 56 28 88 : hardswish groupnorm mean
conv3d 7 32 72 24 80 : logsumexp relu
conv3d 8 28 48 32 88 : instancenorm gain clamp largest
conv3d 14 20 40 24 88 : batchnorm silu residual
upsample3d 24 32 24 12 56 : bias residual gain residual
upsample3d 18 48 32 12 56 : instancenorm avgpool gelu sum
upsample3d 30 32 16 14 56 : batchnorm centred
upsample3d 24 40 24 12 56 : avgpool clamp softmax gain
upsample3d 36 24 16 16 48 : scale batchnorm relu
upsample3d 18 40 32 14 56 : leaky gain leaky maxpool
upsample3d 27 36 20 12 56 : clamp divide
upsample3d 21 48 24 14 52 : silu groupnorm hardswish
upsample3d 30 24 24 12 60 : maxpool softmax subtract silu largest
upsample3d 24 32 28 12 56 : logsumexp sigmoid subtract clamp
upsample3d 18 64 24 12 56 : softmax sigmoid
upsample3d 36 20 20 14 52 : gelu bias tanh instancenorm
"""


def rows() -> list[TaskText]:
    texts = [_text(line) for line in ROWS.strip().splitlines()]
    return [texts[place * 37 % len(texts)] for place in range(len(texts))]


def _text(line: str) -> TaskText:
    what, _, tail = (part.strip() for part in line.partition(":"))
    kind, *numbers = what.split()
    head, words = HEADS[kind], tail.split()
    init, forward = [f"self.{kind} = nn.{head.made.format(*numbers)}"], [f"x = self.{kind}(x)"]
    if "residual" in words:
        forward.append("skip = x")
    for word in words:
        made, expression = MADE[word](head) if word in MADE else ("", PLAIN[word])
        if made and made not in init:
            init.append(made)
        forward.append(f"x = {expression}")
    arguments = ", ".join(
        name for name in ("in_features", "in_channels", "out_channels", "out_features") if f"{name}=" in head.sizes
    )
    shapes = (head.shape,)
    name = "_".join((kind, *words))
    return TaskText(name, 2, head.sizes.format(*numbers), shapes, "\n".join([*forward, "return x"]), "\n".join(init), arguments)


def _param(head: Head) -> str:
    return ", ".join([head.channels, *("1" for _ in range(head.space))])
