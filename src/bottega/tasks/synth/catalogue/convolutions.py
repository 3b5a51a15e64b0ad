"""Convolutions of all kinds, over one, two and three axes."""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.operator import FLOATS, Form, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import count, mixed

LAYOUT = {1: "ncl", 2: "nchw", 3: "ncdhw"}
HEAD = roles("alone head")

Lengths = int | tuple[int, ...]


def _each(value: Lengths, dims: int) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,) * dims


def _roomy(s: OperatorUse) -> bool:
    return min(s.shape[2:]) >= 5


def _fan(s: OperatorUse) -> int:
    return max(1, s.shape[1] // int(s.p.get("groups", 1)) * count(_each(s.p["kernel_size"], s.rank - 2)))


def _law(s: OperatorUse) -> Any:
    if s.p.get("transposed"):  # torch takes the output side for the fan of a transposed layer
        taps = count(_each(s.p["kernel_size"], s.rank - 2))
        used = max(1.0, taps / count(_each(s.p.get("stride", 1), s.rank - 2)))
        gain = (s.shape[1] * used / (3 * s.p["out_channels"] * taps)) ** 0.5
        return mixed(s.table, s.p["out_channels"] * taps, s.draw.rng, gain)
    return mixed(s.table, _fan(s), s.draw.rng, bias=bool(s.p.get("bias", True)))


def _channels(low: int, high: int) -> Any:
    return lambda s: s.draw.size("out_channels", low, high * s.draw.shrink * s.draw.target.sizes**0.5)


def _same_padding(s: OperatorUse) -> Lengths:
    kernel, dilation = s.p["kernel_size"], s.p.get("dilation", 1)
    if isinstance(kernel, tuple):
        return tuple(length // 2 for length in kernel)
    return int(s.draw.weighted((0, dilation * (kernel // 2), 1), (4, 5, 1)))


def _outer(s: OperatorUse) -> int:
    """Torch wants it below the stride."""
    return s.draw.pick((0, 0, 1)) if s.p["stride"] > 1 else 0


def _dividing(s: OperatorUse) -> int:
    """Out channels of a grouped convolution: a multiple of its groups."""
    groups = s.p["groups"]
    return s.draw.named("out_channels", max(1, s.draw.length(8, 64) // groups) * groups)


def _groups(s: OperatorUse) -> int:
    options = [number for number in (2, 3, 4, 8, 16) if s.shape[1] % number == 0 and number < s.shape[1]]
    return s.draw.pick(options) if options else 1


def conv(
    name: str,
    dims: int,
    *,
    transposed: bool = False,
    often: float = 1.0,
    channels: tuple[int, int] | None = None,
    **parameters: Any,
) -> Operator:
    kind = f"ConvTranspose{dims}d" if transposed else f"Conv{dims}d"
    outer = "{, output_padding=0}" if transposed else ""
    rest = f"{{, stride=1}}{{, padding=0}}{outer}{{, dilation=1}}{{, groups=1}}{{, bias=True}})"
    low, high = channels or {1: (8, 96), 2: (8, 96), 3: (4, 32)}[dims]
    texts = (
        f"nn.{kind}({{in_channels}}, {{out_channels}}, {{kernel_size}}{rest}",
        f"nn.{kind}({{in_channels}}, {{out_channels}}, kernel_size={{kernel_size}}{rest}",
    )
    attribute = "conv_transpose" if transposed else "conv"
    drawn: dict[str, Any] = {
        "in_channels": lambda s: s.shape[1],
        "groups": (1,),
        "out_channels": _channels(low, high),
        "kernel_size": (3, 3, 3, 3, 3, 3, 5, 5, 7),
        "stride": (1,),
        "dilation": (1,),
        "padding": _same_padding,
    }
    drawn |= parameters | {"bias": (True, True, True, False)}
    return Operator(
        name,
        "convolutions",
        tuple(form(text, attribute=attribute) for text in texts),
        (LAYOUT[dims],),
        drawn | ({"transposed": (True,)} if transposed else {}),
        when=_roomy,
        law=_law,
        roles=HEAD,
        often=often,
        dtypes=FLOATS if not transposed and dims < 3 else ("float32",),
        literal=frozenset({"bias", "transposed"}),
    )


def _functional(name: str, dims: int) -> Operator:
    taps = ", ".join(["{kernel_size}"] * dims)
    weight = ("weight", f"nn.Parameter(torch.randn({{out_channels}}, {{in_channels}}, {taps}) * 0.1)")
    return Operator(
        name,
        "convolutions",
        (
            Form(f"F.conv{dims}d({{x}}, {{@weight}}{{, stride=1}}{{, padding=0}})", (weight,)),
            Form(
                f"F.conv{dims}d({{x}}, {{@weight}}, {{@bias}}{{, stride=1}}{{, padding=0}})",
                (weight, ("bias", "nn.Parameter(torch.randn({out_channels}))")),
            ),
        ),
        (LAYOUT[dims],),
        {
            "in_channels": lambda s: s.shape[1],
            "out_channels": _channels(8, 64),
            "kernel_size": (3, 5),
            "stride": (1, 1, 2),
            "padding": _same_padding,
        },
        when=_roomy,
        law=lambda s: mixed(s.table, _fan(s), s.draw.rng, 0.1 * _fan(s) ** 0.5),
        roles=HEAD,
    )


STRIDES = (1, 1, 1, 2)
DEPTHWISE: dict[str, Any] = {"groups": lambda s: s.shape[1], "out_channels": lambda s: s.shape[1]}
CONVOLUTIONS = (
    conv("conv1d", 1, often=2.0, stride=STRIDES, dilation=(1,)),
    conv("conv1d_dilated", 1, dilation=(2, 3, 4)),
    conv("conv1d_strided", 1, stride=(2, 3, 4), kernel_size=(3, 4, 5, 7)),
    conv("conv2d", 2, often=8.0, stride=STRIDES),
    conv("conv2d_dilated", 2, dilation=(2, 3)),
    conv("conv2d_strided", 2, stride=(2, 2, 3), kernel_size=(3, 4, 5, 7)),
    conv("conv2d_asymmetric", 2, kernel_size=((3, 5), (5, 3), (1, 7), (7, 1), (3, 7), (2, 4))),
    conv("conv2d_uneven", 2, kernel_size=((3, 3), (3, 5), (5, 5)), stride=((1, 2), (2, 1)), padding=((1, 2), (0, 1), (2, 1))),
    conv("conv2d_large_kernel", 2, kernel_size=(9, 11), channels=(4, 24)),
    conv("conv2d_grouped", 2, groups=_groups, out_channels=_dividing),
    conv("conv2d_depthwise", 2, **DEPTHWISE, stride=STRIDES, often=1.5),
    conv("conv2d_depthwise_asymmetric", 2, **DEPTHWISE, kernel_size=((3, 7), (1, 5), (5, 1), (7, 3))),
    conv(
        "conv2d_depth_multiplier",
        2,
        groups=lambda s: s.shape[1],
        out_channels=lambda s: s.draw.named("out_channels", int(s.shape[1]) * s.draw.pick((2, 3))),
    ),
    conv("conv2d_pointwise", 2, kernel_size=(1,), often=1.5),
    conv("conv1d_pointwise", 1, kernel_size=(1,)),
    conv("conv1d_depthwise", 1, **DEPTHWISE, kernel_size=(3, 5, 7, 15)),
    conv("conv3d", 3, often=3.0, stride=STRIDES),
    conv("conv3d_asymmetric", 3, kernel_size=((1, 3, 3), (3, 1, 1), (3, 5, 5), (3, 3, 1))),
    conv("conv3d_grouped", 3, groups=_groups, out_channels=_dividing),
    conv("conv_transpose1d", 1, transposed=True, stride=(1, 2, 3), padding=(0, 1), output_padding=_outer),
    conv(
        "conv_transpose2d",
        2,
        transposed=True,
        stride=(1, 2, 2),
        padding=(0, 1),
        output_padding=_outer,
        kernel_size=(3, 4, 5),
        channels=(8, 64),
        often=3.0,
    ),
    conv(
        "conv_transpose2d_asymmetric",
        2,
        transposed=True,
        kernel_size=((3, 5), (5, 3), (2, 4)),
        stride=(1, (2, 1), (1, 2)),
        padding=(0, (1, 1)),
        channels=(8, 48),
    ),
    conv(
        "conv_transpose2d_dilated",
        2,
        transposed=True,
        dilation=(2, 3),
        stride=(1, 2),
        padding=(0, 1, 2),
        kernel_size=(3,),
        channels=(8, 48),
    ),
    conv(
        "conv_transpose2d_grouped",
        2,
        transposed=True,
        groups=_groups,
        out_channels=_dividing,
        stride=(1, 2),
        padding=(0, 1),
        kernel_size=(3, 4),
    ),
    conv(
        "conv_transpose3d",
        3,
        transposed=True,
        stride=(1, 2, 2),
        padding=(0, 1),
        output_padding=_outer,
        kernel_size=(3, 3, 4),
        often=2.0,
    ),
    conv(
        "conv_transpose3d_asymmetric",
        3,
        transposed=True,
        kernel_size=((1, 3, 3), (3, 5, 5), (3, 1, 3)),
        stride=(1, (1, 2, 2)),
        padding=(0, (0, 1, 1)),
    ),
    _functional("conv2d_functional", 2),
    _functional("conv1d_functional", 1),
    Operator(
        "conv1d_causal",
        "convolutions",
        (
            form(
                "{@conv}(F.pad({x}, ({left}, 0)))",
                ("conv", "nn.Conv1d({in_channels}, {out_channels}, {kernel_size}{, dilation=1})"),
            ),
            form(
                "{@conv}({x})[..., :-{left}]",
                ("conv", "nn.Conv1d({in_channels}, {out_channels}, {kernel_size}, padding={left}{, dilation=1})"),
            ),
        ),
        ("ncl",),
        {
            "in_channels": lambda s: s.shape[1],
            "out_channels": _channels(8, 96),
            "kernel_size": (3, 4, 5),
            "dilation": (1, 1, 2, 4),
            "left": lambda s: s.p["dilation"] * (s.p["kernel_size"] - 1),
        },
        when=lambda s: s.shape[2] > 32,
        law=_law,
        roles=HEAD,
        literal=frozenset({"left", "kernel_size", "dilation"}),
    ),
    Operator(
        "conv2d_separable",
        "convolutions",
        (
            form(
                "{@pointwise}({@depthwise}({x}))",
                (
                    "depthwise",
                    "nn.Conv2d({in_channels}, {in_channels}, {kernel_size}, padding={padding}, groups={in_channels}{, bias=True})",
                ),
                ("pointwise", "nn.Conv2d({in_channels}, {out_channels}, 1{, bias=True})"),
            ),
            form(
                "{=h} = {@depthwise}({x})\n{@pointwise}({=h})",
                (
                    "depthwise",
                    "nn.Conv2d({in_channels}, {in_channels}, kernel_size={kernel_size}, padding={padding}, groups={in_channels}{, bias=True})",
                ),
                ("pointwise", "nn.Conv2d({in_channels}, {out_channels}, kernel_size=1{, bias=True})"),
            ),
        ),
        ("nchw",),
        {
            "in_channels": lambda s: s.shape[1],
            "out_channels": _channels(8, 128),
            "kernel_size": (3, 5),
            "padding": lambda s: s.p["kernel_size"] // 2,
            "bias": (True, False),
        },
        law=lambda s: mixed(mixed(s.table, 9, s.draw.rng), s.shape[1], s.draw.rng),
        roles=HEAD,
        literal=frozenset({"bias", "padding", "kernel_size"}),
    ),
    Operator(
        "conv2d_padded",
        "convolutions",
        forms(
            (
                'nn.Conv2d({in_channels}, {out_channels}, {kernel_size}, padding={padding}, padding_mode="{mode}") | '
                'nn.Conv2d({in_channels}, {out_channels}, kernel_size={kernel_size}, padding={padding}, padding_mode="{mode}")'
            ),
            "conv",
        ),
        ("nchw",),
        {
            "in_channels": lambda s: s.shape[1],
            "out_channels": _channels(8, 64),
            "kernel_size": (3, 5),
            "padding": lambda s: s.p["kernel_size"] // 2,
            "mode": ("reflect", "replicate", "circular"),
        },
        when=lambda s: min(s.shape[2:]) > 8,
        law=_law,
        roles=HEAD,
        literal=frozenset({"mode", "padding", "kernel_size"}),
        dtypes=("float32",),
    ),
    Operator(
        "unfold",
        "convolutions",
        forms(
            ("nn.Unfold(kernel_size={kernel_size}, stride={stride}) | F.unfold({x}, {kernel_size}, stride={stride})"), "unfold"
        ),
        ("nchw",),
        {"kernel_size": (2, 3, 4), "stride": (1, 2)},
        when=lambda s: min(s.shape[2:]) > 8,
        roles=roles("alone"),
    ),
)
