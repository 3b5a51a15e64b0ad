"""Level 3: a block on its own, several of them in a row with a stem and a head, or a small network, with its activations and norms drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bottega.tasks.synth.catalogue.blocks import BLOCKS
from bottega.tasks.synth.catalogue.networks import NETWORKS
from bottega.tasks.synth.catalogue.template import ModuleTemplate
from bottega.tasks.synth.costs import TimeTarget
from bottega.tasks.synth.scale import rounded
from bottega.tasks.synth.source_file import SourceFile
from bottega.tasks.synth.style import Style

ACTIVATIONS: tuple[tuple[str, str, str, float], ...] = (
    ("relu", "F.relu({})", "nn.ReLU()", 4.0),
    ("relu", "torch.relu({})", "nn.ReLU(inplace=False)", 1.0),
    ("gelu", "F.gelu({})", "nn.GELU()", 2.0),
    ("silu", "F.silu({})", "nn.SiLU()", 2.0),
    ("leaky_relu", "F.leaky_relu({}, 0.1)", "nn.LeakyReLU(0.1)", 1.0),
    ("hardswish", "F.hardswish({})", "nn.Hardswish()", 0.7),
    ("mish", "F.mish({})", "nn.Mish()", 0.5),
    ("tanh", "torch.tanh({})", "nn.Tanh()", 0.7),
    ("elu", "F.elu({})", "nn.ELU()", 0.7),
    ("relu6", "F.relu6({})", "nn.ReLU6()", 0.5),
)
"""Name, as a function, as a module, and how often."""
NORMS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "nchw": (
        ("batch_norm2d", "nn.BatchNorm2d({})", 4.0),
        ("group_norm", "nn.GroupNorm(4, {})", 1.5),
        ("group_norm", "nn.GroupNorm(2, {})", 0.5),
        ("instance_norm2d", "nn.InstanceNorm2d({}, affine=True)", 0.7),
    ),
    "sequence": (("layer_norm", "nn.LayerNorm({})", 4.0), ("rms_norm", "nn.RMSNorm({})", 2.0)),
    "rows": (("layer_norm", "nn.LayerNorm({})", 3.0), ("rms_norm", "nn.RMSNorm({})", 1.0)),
    "ncl": (("batch_norm1d", "nn.BatchNorm1d({})", 1.0),),
}
CHANNEL_CHOICES = {
    (True, False): (16, 24, 32, 48, 64, 96),
    (False, False): (64, 96, 128, 192, 256, 384),
    (True, True): (32, 64, 96, 128, 192, 256),
    (False, True): (256, 384, 512, 768, 1024),
}
"""By whether it is an image, and whether the device is large."""
CHANNELS = {"nchw": "channels", "sequence": "dim", "rows": "features"}
GROWING = frozenset(
    {"width", "hidden", "dim", "channels", "in_features", "hidden_size", "input_size", "embed_dim", "out_features"}
)
"""Sizes of a network that a larger device has larger."""
_SLOT = re.compile(r"@(\w+)\[((?:[^\[\]@]|\[[^\[\]]*\])*)\]")


@dataclass(frozen=True)
class ComposedNetwork:
    source: str
    name: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class _BlockChoices:
    """Which activation and norm stand in the slots of one task."""

    activation: tuple[str, str, str, float]
    norm: tuple[str, str, float]
    as_module: bool

    def fill(self, text: str) -> str:
        while _SLOT.search(text):
            text = _SLOT.sub(self._slot, text)
        return text

    def _slot(self, match: re.Match[str]) -> str:
        kind, inner = match.group(1), match.group(2)
        if kind == "norm":
            return self.norm[1].format(inner)
        return f"self.act({inner})" if self.as_module else self.activation[1].format(inner)

    def names(self, operators: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted({"act": self.activation[0], "norm": self.norm[0]}.get(name, name) for name in operators))


def _draw_choices(rng: Random, layout: str) -> _BlockChoices:
    norms = NORMS[layout]
    return _BlockChoices(
        rng.choices(ACTIVATIONS, [entry[3] for entry in ACTIVATIONS])[0],
        rng.choices(norms, [entry[2] for entry in norms])[0],
        rng.random() < 0.4,
    )


def build(rng: Random, style: Style, target: TimeTarget, batch: int) -> ComposedNetwork:
    if rng.random() < 0.3:
        return _network(rng, style, target, batch, rng.choice(NETWORKS))
    return _blocks(rng, style, target, batch)


def _constructor(choices: _BlockChoices, init: str, forward: str) -> list[str]:
    lines = choices.fill(init).splitlines()
    return [*lines, f"self.act = {choices.activation[2]}"] if choices.as_module and "@act[" in forward else lines


def _network(rng: Random, style: Style, target: TimeTarget, batch: int, entry: ModuleTemplate) -> ComposedNetwork:
    choices = _draw_choices(rng, entry.layout)
    factor = rng.choice((1, 2, 4)) if target.sizes > 1 else 1
    sizes = {name: rng.choice(options) * (factor if name in GROWING else 1) for name, options in entry.sizes.items()}
    arguments = {name: sizes[name] for name in entry.arguments}
    init = _constructor(choices, entry.init, entry.forward)
    source = SourceFile(style).assemble(
        doc=_doc(style, entry.name),
        init=init,
        arguments=arguments,
        forward=[name for name, _ in entry.inputs],
        body=choices.fill(entry.forward).splitlines(),
        constants={"batch_size": batch, **sizes},
        inputs=entry.inputs,
    )
    return ComposedNetwork(source, entry.name, choices.names(entry.operators))


def _blocks(rng: Random, style: Style, target: TimeTarget, batch: int) -> ComposedNetwork:
    """A block alone, several in a row, or several between a layer that widens the input and one that gives the answer."""
    entry = rng.choice(BLOCKS)
    choices = _draw_choices(rng, entry.layout)
    frame = rng.choices(("alone", "stack", "headed"), (5, 3, 2))[0]
    multiple = entry.sizes.get("multiple", (8,))[0]
    wanted = rng.choice(CHANNEL_CHOICES[entry.layout == "nchw", target.sizes > 1])
    channels = max(multiple, multiple * round(rounded(wanted, "power" if rng.random() < 0.5 else "round") / multiple))
    options = {name: rng.choice(values) for name, values in entry.sizes.items() if name != "multiple"}
    shape = _shape(rng, entry, target)
    steady = "norm" in entry.operators or "add" in entry.operators
    depth = 1 if frame == "alone" else rng.randint(2, 4) if steady else 2  # without norm or residual a deep stack fades out
    first = CHANNELS[entry.layout]
    arguments = {first: channels, **({"tokens": shape["seq_len"]} if "tokens" in entry.init else {}), **options}
    constants = {"batch_size": batch, first: channels, **options, **shape}
    lengths = ["batch_size", first, *shape] if entry.layout == "nchw" else ["batch_size", *shape, first]
    init, body, before = _constructor(choices, entry.init, entry.forward), choices.fill(entry.forward).splitlines(), ""
    if frame != "alone":
        names = ", ".join(arguments)
        before = _class(entry.title, names, init, body)
        listed, looped = f"[{entry.title}({names}) for _ in range(depth)]", rng.random() < 0.5
        init = [f"self.blocks = nn.ModuleList({listed})" if looped else f"self.blocks = nn.Sequential(*{listed})"]
        body = ["for block in self.blocks:", "    x = block(x)", "return x"] if looped else ["return self.blocks(x)"]
        arguments["depth"] = depth
    if frame == "headed":
        body = [*body[:-1], "x = self.blocks(x)"] if body[-1] != "return x" else body[:-1]
        classes = rng.choice((10, 16, 32, 100))
        if entry.layout == "nchw":
            head = f"self.head = nn.Linear({first} * 16, num_classes)"
            init = [f"self.stem = nn.Conv2d(3, {first}, 3, padding=1)", *init, head]
            body = ["x = self.stem(x)", *body, "x = F.adaptive_max_pool2d(x, 4).flatten(1)", "return self.head(x)"]
        else:
            arguments = {"in_features": rng.choice((16, 32, 64)), **arguments}
            init = [f"self.embed = nn.Linear(in_features, {first})", *init, f"self.head = nn.Linear({first}, num_classes)"]
            whole = entry.layout == "rows" or rng.random() < 0.5
            body = ["x = self.embed(x)", *body, "return self.head(x)" if whole else "return self.head(x[:, -1])"]
        lengths[lengths.index(first)] = "3" if entry.layout == "nchw" else "in_features"
        arguments["num_classes"] = classes
    source = SourceFile(style).assemble(
        doc=_doc(style, entry.name if frame == "alone" else f"{depth} {entry.name} blocks"),
        init=init,
        arguments=arguments,
        forward=["x"],
        body=body,
        constants={**constants, **arguments},
        inputs=[("x", f"torch.randn({', '.join(lengths)})")],
        before=before,
    )
    name = entry.name if frame == "alone" else f"{entry.name}_{frame}"
    return ComposedNetwork(source, name, choices.names(entry.operators))


def _class(title: str, arguments: str, init: Sequence[str], body: Sequence[str]) -> str:
    head = [f"class {title}(nn.Module):", f"    def __init__(self, {arguments}):", "        super().__init__()"]
    forward = ["", "    def forward(self, x):", *(f"        {line}" for line in body)]
    return "\n".join([*head, *(f"        {line}" for line in init), *forward])


def _shape(rng: Random, entry: ModuleTemplate, target: TimeTarget) -> dict[str, int]:
    large = target.sizes > 1
    if entry.layout == "nchw":
        side = rng.choice((8, 12, 16, 20, 28, 32) if not large else (16, 24, 28, 32, 48, 56, 64))
        return {"height": side, "width": side if rng.random() < 0.8 else 4 * rng.randint(2, 8)}
    if entry.layout == "sequence":
        return {"seq_len": rng.choice((16, 24, 32, 49, 64, 100, 128) if not large else (64, 128, 196, 256, 384, 512))}
    return {}


def _doc(style: Style, name: str) -> dict[str, str]:
    words = name.replace("_", " ")
    if style.docstring == "none":
        return {}
    text = f"{words[:1].upper()}{words[1:]}."
    return {"module": text} if style.docstring == "module" else {"class": f'"""{text}"""'}
