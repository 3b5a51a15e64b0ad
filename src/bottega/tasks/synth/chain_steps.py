"""The steps of a chain: what may follow what, over rows, sequences or maps, with the shape carried along.

A chain is written as people write benchmarks: a layer, then a handful of operators of every kind. Here every kind comes as often as the others,
with its less usual options too: other dimensions, dimensions kept or dropped, values looked at from another side.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from bottega.tasks.synth.chain_layers import layer, norm, pooling, prototypes, recurrent, twin
from bottega.tasks.synth.chain_state import Chain, Shape
from bottega.tasks.synth.chain_templates import (
    ACTIVATIONS,
    FLAGGED,
    FROM_PARAMETER,
    GAINS,
    LABELLED,
    NUMBERS,
    ROW_LOSSES,
    SHIFTS,
    TRIPLETS,
    WHOLE_LOSSES,
)

Step = Callable[[Chain], bool]
"""Writes something and says so; False where it does not fit."""


def activation(chain: Chain) -> bool:
    text = chain.chance.choice(ACTIVATIONS)
    chain.write(text.partition("(")[0].rpartition(".")[2].strip("-{} *") or "square", text)
    return True


def number(chain: Chain) -> bool:
    chain.write("arithmetic", chain.chance.choice(NUMBERS))
    return True


def parameter(chain: Chain) -> bool:
    """A gain or a shift for each channel, for each feature, for some other dimensions, or one for all."""
    gain = chain.flag(0.5)
    size = f"{chain.channels}{', 1' * chain.maps}" if not chain.flag(0.15) else "1"
    if chain.flag(0.45):
        size = ", ".join(map(str, _some_of(chain)))
    start = f"torch.ones({size}) + 0.1 * torch.randn({size})" if gain else f"0.1 * torch.randn({size})"
    name = chain.attribute(GAINS if gain else SHIFTS, f"nn.Parameter({start})")
    if chain.flag(0.2):
        name = chain.chance.choice(FROM_PARAMETER).replace("P", name)
    signs = ("*", "*", "/") if gain else ("+", "+", "-")
    chain.write("parameter", f"{{x}} {chain.chance.choice(signs)} {name}")
    return True


def spread_parameter(chain: Chain) -> bool:
    """One number for each channel that is kept as a row and turned for its use, or the slope of a PReLU."""
    if not chain.maps:
        return False
    channels = chain.channels
    if chain.flag(0.35):
        name = chain.attribute(("prelu", "act", "slope"), f"nn.PReLU({channels if chain.flag(0.7) else ''})")
        chain.write("prelu", f"{name}({{x}})")
        return True
    gain = chain.flag(0.5)
    start = f"torch.ones({channels}) + 0.1 * torch.randn({channels})" if gain else f"0.1 * torch.randn({channels})"
    name = chain.attribute(GAINS if gain else SHIFTS, f"nn.Parameter({start})")
    ones = ", 1" * chain.maps
    ways = (
        f"[None, :{', None' * chain.maps}]",
        f".view(1, -1{ones})",
        f".view(1, {channels}{ones})",
        f".reshape(1, -1{ones})",
        f"[:{', None' * chain.maps}]",
    )
    chain.write("parameter", f"{{x}} {'*' if gain else '+'} {name}{chain.chance.choice(ways)}")
    return True


def flattened(chain: Chain) -> bool:
    """Along all places of a map at once, by way of a flat view: and back, or what is left for each channel."""
    if chain.maps < 2 or prod(chain.shape[1:]) > 30_000:
        return False
    channels, *places = chain.shape
    flat = chain.chance.choice(
        (
            "{x}.flatten(2)",
            "torch.flatten({x}, 2)",
            f"{{x}}.view(x.shape[0], {channels}, -1)",
            "{x}.reshape(x.shape[0], x.shape[1], -1)",
        )
    )
    if chain.flag(0.5):
        way = chain.chance.choice(
            ("F.softmax(V, dim=-1)", "torch.softmax(V, dim=2)", "F.log_softmax(V, dim=-1)", "F.normalize(V, dim=2)")
        )
        back = chain.chance.choice(
            (".view_as({x})", ".reshape({x}.shape)", f".view(x.shape[0], {channels}, {', '.join(map(str, places))})")
        )
        chain.write("flattened", f"{way.replace('V', flat)}{back}")
        return True
    way = chain.chance.choice(
        (
            "torch.logsumexp(V, dim=2)",
            "V.amax(dim=-1)",
            "V.max(dim=2)[0]",
            "V.mean(dim=-1)",
            "V.std(dim=2)",
            "V.var(-1, unbiased=False)",
        )
    )
    chain.write("flattened", way.replace("V", flat), (channels,))
    chain.maps = 0
    return True


def entropy(chain: Chain) -> bool:
    """How undecided a softmax is, along the channels or the features."""
    dim = chain.channel_dim
    kept = ", keepdim=True" if chain.flag(0.5) else ""
    chain.lines.append(f"p = F.softmax(x{chain.chance.choice(('', ' * 0.5', ' / 2.0'))}, dim={dim})")
    ways = (
        "-(p * torch.log(p + {small})).sum",
        "(p * (p + {small}).log()).sum",
        "(p * p).sum",
        "-(p * F.log_softmax({x}, dim=D)).sum",
    )
    shape = tuple(1 if place + 1 == dim else size for place, size in enumerate(chain.shape))
    if not kept:
        shape = tuple(size for place, size in enumerate(chain.shape) if place + 1 != dim)
        chain.maps = len(shape) - 1 if chain.maps and len(shape) == 3 else 0
    chain.write("entropy", f"{chain.chance.choice(ways).replace('D', str(dim))}(dim={dim}{kept})", shape)
    chain.ended = prod(shape) <= 1 or not shape
    return True


def shared_input(chain: Chain) -> bool:
    """An input that is one for all samples: a mask, positions."""
    if len(chain.inputs) > 2:
        return False
    name = chain.second(tuple(_some_of(chain)), is_shared=True)
    ways = (
        "{x} + M",
        "{x} + M",
        "{x} * M",
        "{x} - M",
        "M * {x}",
        "{x}.masked_fill(M < 0, {number})",
        "torch.where(M > 0, {x}, {slope} * {x})",
    )
    chain.write("shared_input", chain.chance.choice(ways).replace("M", name))
    return True


def gate(chain: Chain) -> bool:
    """Few numbers made of many, that open and shut the many again."""
    dims = list(range(2, chain.maps + 2)) if chain.maps and chain.flag(0.6) else [_some_dim(chain, negative=False)]
    said = str(dims[0]) if len(dims) == 1 else str(dims if chain.flag(0.5) else tuple(dims))
    way = chain.chance.choice(("mean", "mean", "sum", "amax", "amin", "logsumexp"))
    name = chain.chance.choice(("g", "gate", "s", "level", "summary"))
    chain.lines.append(f"{name} = x.{way}(dim={said}, keepdim=True)")
    shape = [1 if place + 1 in dims else size for place, size in enumerate(chain.shape)]
    if chain.flag(0.6) and prod(shape) > 1:
        sizes = ", ".join(map(str, [1, *shape] if chain.flag(0.6) else shape))
        gain = chain.attribute(GAINS, f"nn.Parameter(torch.ones({sizes}) + 0.1 * torch.randn({sizes}))")
        chain.lines.append(f"{name} = {name} {chain.chance.choice(('*', '*', '+', '-'))} {gain}")
    if chain.flag(0.8):
        opened = (
            "torch.sigmoid({x})",
            "torch.sigmoid({x})",
            "F.hardsigmoid({x})",
            "torch.tanh({x})",
            "F.softplus({x})",
            "{x} * {slope}",
            "F.relu({x})",
        )
        chain.lines.append(f"{name} = {chain.filled(chain.chance.choice(opened).replace('{x}', name))}")
    joined = ("{x} * G", "{x} * G", "{x} + G", "{x} - G", "{x} / (1.0 + torch.abs(G))", "{x} + {x} * G")
    chain.write("gate", chain.chance.choice(joined).replace("G", name))
    return True


def _some_of(chain: Chain) -> list[int]:
    """A shape that some dimensions of a sample have, as people write it: with or without the batch's and other single ones in front."""
    kept = [chain.flag(0.5) for _ in chain.shape]
    kept[chain.chance.randrange(len(kept))] = True
    sizes = [size if keep else 1 for size, keep in zip(chain.shape, kept)]
    if prod(sizes) > 4_000_000:
        sizes = [*[1] * (len(sizes) - 1), chain.shape[-1]]
    way = chain.chance.random()
    if way < 0.4:
        sizes = [1, *sizes]
    elif way < 0.8:
        while len(sizes) > 1 and sizes[0] == 1:
            sizes.pop(0)
    return sizes


def cut(chain: Chain) -> bool:
    """Two halves, one of which mostly opens and shuts the other."""
    dim = _some_dim(chain, negative=False)
    size = chain.shape[dim - 1]
    if size % 2 or size < 4:
        return False
    said = dim if chain.flag(0.6) else dim - len(chain.shape) - 1
    first, second = chain.chance.choice((("a", "b"), ("value", "gate"), ("left", "right"), ("u", "v"), ("h1", "h2")))
    ways = (
        f"x.chunk(2, dim={said})", f"torch.chunk(x, 2, dim={said})", f"torch.split(x, {size // 2}, dim={said})",
        f"x.split([{size // 2}, {size // 2}], dim={said})", f"x.narrow({dim}, 0, {size // 2}), x.narrow({dim}, {size // 2}, {size // 2})",
    )  # fmt: skip
    chain.lines.append(f"{first}, {second} = {chain.chance.choice(ways)}")
    joined = (
        "A * torch.sigmoid(B)", "torch.sigmoid(A) * B", "A * F.gelu(B)", "F.silu(A) * B", "torch.tanh(A) * torch.sigmoid(B)", "A + {slope} * B",
        "A * B", "torch.maximum(A, B)", "A * F.relu(B)", "A - B", "torch.tanh(B) + A",
    )  # fmt: skip
    text = chain.chance.choice(joined).replace("A", first).replace("B", second)
    shape = tuple(size // 2 if place == dim - 1 else own for place, own in enumerate(chain.shape))
    chain.write("cut", text, shape)
    return True


def residual(chain: Chain) -> bool:
    """Something from before, or another input, with what is there now."""
    fitting = [name for name, shape in chain.earlier.items() if shape == chain.shape]
    if fitting and chain.flag(0.85):
        other = chain.chance.choice(fitting)
    elif len(chain.inputs) < 3 and chain.flag(0.5):
        other = chain.second(chain.shape)
    else:
        return False
    ways = (
        "{x} + O", "{x} + O", "O + {x}", "{x} * O", "{x} - O", "O - {x}", "{x} * torch.sigmoid(O)", "torch.maximum({x}, O)", "torch.sigmoid({x}) * O",
        "O + {slope} * {x}", "torch.lerp(O, {x}, {slope})", "{x} * F.silu(O)", "torch.minimum({x}, O)", "{x} / (1.0 + torch.abs(O))",
        "torch.tanh({x}) * torch.sigmoid(O)", "{x} * O + O",
    )  # fmt: skip
    chain.write("residual", chain.chance.choice(ways).replace("O", other))
    return True


def keep(chain: Chain) -> bool:
    """A name for what is there, for later."""
    name = next(name for name in ("identity", "h", "kept", "before", "z") if name not in chain.earlier)
    if len(chain.earlier) >= 3:
        return False
    chain.lines.append(f"{name} = x")
    chain.earlier[name] = chain.shape
    return activation(chain)


def formula_norm(chain: Chain) -> bool:
    """A norm by hand, or a softmax: along the channels, the features, or all that lies behind the channels."""
    dim = _some_dim(chain)
    ways = (
        f"torch.softmax({{x}}, dim={dim})", f"F.softmax({{x}}, dim={dim})", f"F.log_softmax({{x}}, dim={dim})", f"F.normalize({{x}}, dim={dim})",
        f"F.normalize({{x}}, p=1, dim={dim})", f"{{x}} / torch.sqrt(torch.mean({{x}} ** 2, dim={dim}, keepdim=True) + {{small}})",
        f"{{x}} - {{x}}.mean(dim={dim}, keepdim=True)",
        f"({{x}} - {{x}}.mean(dim={dim}, keepdim=True)) / ({{x}}.std(dim={dim}, keepdim=True) + {{small}})",
        f"{{x}} / (torch.norm({{x}}, p=2, dim={dim}, keepdim=True) + {{small}})", f"{{x}} / ({{x}}.abs().mean(dim={dim}, keepdim=True) + {{small}})",
        f"{{x}} * torch.rsqrt({{x}}.pow(2).mean({dim}, keepdim=True) + {{small}})", f"{{x}} - torch.logsumexp({{x}}, dim={dim}, keepdim=True)",
        f"{{x}} - torch.amax({{x}}, dim={dim}, keepdim=True)", f"{{x}} - torch.max({{x}}, dim={dim}, keepdim=True)[0]",
        f"F.softmin({{x}}, dim={dim})",
        f"({{x}} - {{x}}.mean({dim}, keepdim=True)) / torch.sqrt({{x}}.var({dim}, keepdim=True, unbiased=False) + {{small}})",
    )  # fmt: skip
    chain.write("formula_norm", chain.chance.choice(ways))
    return True


def reduction(chain: Chain) -> bool:
    """Along one dimension or several, kept or dropped; what is dropped makes the value smaller."""
    keeps = chain.flag(0.45)
    several = chain.maps > 1 and chain.flag(0.35)
    if several:
        dims = list(range(2, chain.maps + 2)) if chain.flag(0.7) else list(range(1, chain.maps + 2))
        said = f"[{', '.join(map(str, dims))}]" if chain.flag(0.4) else f"({', '.join(map(str, dims))})"
        name = chain.chance.choice(("mean", "mean", "sum", "amax", "amin", "logsumexp"))
    else:
        dims = [_some_dim(chain, negative=False)]
        said = str(dims[0] if chain.flag(0.6) else dims[0] - len(chain.shape) - 1)
        name = chain.chance.choice(
            ("mean", "sum", "amax", "amin", "max", "min", "logsumexp", "max", "norm", "var", "std", "prod")
        )
    kept = ", keepdim=True" if keeps else ""
    if name in ("var", "std") and chain.flag(0.6):
        kept += chain.chance.choice((", unbiased=True", ", unbiased=False", ", unbiased=False", ", correction=0"))
    text = {
        "max": f"torch.max({{x}}, dim={said}{kept})[0]" if chain.flag(0.5) else f"{{x}}.max(dim={said}{kept}).values",
        "min": f"torch.min({{x}}, dim={said}{kept})[0]" if chain.flag(0.5) else f"{{x}}.min(dim={said}{kept}).values",
    }.get(name, f"torch.{name}({{x}}, dim={said}{kept})" if chain.flag(0.7) else f"{{x}}.{name}(dim={said}{kept})")
    shape = tuple(1 if place + 1 in dims else size for place, size in enumerate(chain.shape))
    if not keeps:
        shape = tuple(size for place, size in enumerate(chain.shape) if place + 1 not in dims)
        chain.maps = len(shape) - 1 if chain.maps and len(shape) > 1 and (len(shape) == 3 or chain.flag(0.5)) else 0
    chain.write(name, text, shape)
    chain.ended = prod(shape) <= 1 or not shape
    return True


def look(chain: Chain) -> bool:
    """The same values from another side."""
    if chain.maps:
        channels, *places = chain.shape
        ways: list[tuple[str, Shape, int]] = [
            ("torch.flatten({x}, 1)", (prod(chain.shape),), 0),
            ("{x}.flatten(2)", (channels, prod(places)), 1),
            ("{x}.flatten(2).transpose(1, 2)", (prod(places), channels), 0),
        ]
        if channels % 2 == 0:
            ways += [("F.glu({x}, dim=1)", (channels // 2, *places), chain.maps)] * 2
            half = (channels // 2, *places)
            ways.append((f"{{x}}[:, :{channels // 2}] * torch.sigmoid({{x}}[:, {channels // 2}:])", half, chain.maps))
        if chain.maps == 2 and min(places) > 6:
            cropped = (channels, places[0] - 2, places[1] - 2)
            ways += [
                ("{x}[:, :, 2:, :-2]", cropped, 2),
                ("{x}[..., 1:-1, 1:-1]", cropped, 2),
                ("{x}[:, :, 1:-1, 1:-1]", cropped, 2),
                (f"{{x}}[:, :, :{places[0] - 2}, :{places[1] - 2}]", cropped, 2),
            ]
            ways += [("F.pad({x}, (1, 1, 1, 1))", (channels, places[0] + 2, places[1] + 2), 2)]
            if channels % 4 == 0:
                ways.append(("F.pixel_shuffle({x}, 2)", (channels // 4, 2 * places[0], 2 * places[1]), 2))
        if chain.maps == 1 and places[0] > 8:
            ways += [("{x}[:, :, 2:-2]", (channels, places[0] - 4), 1), ("{x}[..., :-1]", (channels, places[0] - 1), 1)]
        if 1 in places:
            squeezed = tuple(size for size in chain.shape if size != 1) or (1,)
            if len(squeezed) == 1:
                ways += [(f"{{x}}.view(x.shape[0], {squeezed[0]})", squeezed, 0), ("torch.flatten({x}, 1)", squeezed, 0)] * 3
        if prod(chain.shape) > 40_000:
            ways = ways[1:]
    elif len(chain.shape) == 2:
        length, features = chain.shape
        ways = [
            ("{x}.transpose(1, 2)", (features, length), 0),
            ("{x}.reshape(x.shape[0], -1)", (length * features,), 0),
            ("{x}[:, -1]", (features,), 0),
        ]
        if features % 2 == 0:
            ways += [("F.glu({x}, dim=-1)", (length, features // 2), 0)]
        if length * features > 40_000:
            ways.pop(1)
    else:
        (features,) = chain.shape
        ways = [("{x}.unsqueeze(1)", (1, features), 0)]
        if features % 2 == 0:
            ways += [
                ("F.glu({x}, dim=1)", (features // 2,), 0),
                (f"{{x}}[:, :{features // 2}] * F.gelu({{x}}[:, {features // 2}:])", (features // 2,), 0),
            ]
        if features % 8 == 0:
            ways += [(f"{{x}}.view(x.shape[0], 8, {features // 8})", (8, features // 8), 0)]
    text, shape, maps = chain.chance.choice(ways)
    chain.write("look", text, shape)
    chain.maps = maps
    return True


def loss(chain: Chain) -> bool:
    """One number at the end, or one for each sample, against another input."""
    if len(chain.inputs) > 2:
        return False
    rows = len(chain.shape) == 1
    if rows and chain.flag(0.35):
        target = chain.second(
            (), names=("target", "labels", "classes"), drawn=f"torch.randint(0, {chain.channels}, ({{size}},))"
        )
        text = chain.chance.choice(LABELLED).replace("{t}", target)
    elif rows and len(chain.inputs) == 1 and chain.flag(0.25):
        text = chain.chance.choice(TRIPLETS)
        text = text.replace("{y}", chain.second(chain.shape)).replace("{z}", chain.second(chain.shape))
    else:
        text = chain.chance.choice((*WHOLE_LOSSES, *(ROW_LOSSES * 2 if rows else ())))
        text = text.replace("{y}", chain.second(chain.shape))
    chain.write("loss", text, ())
    chain.ended = True
    return True


def scan(chain: Chain) -> bool:
    dim = _some_dim(chain)
    ways = (
        f"torch.cumsum({{x}}, dim={dim})", f"torch.cumprod({{x}} * {{slope}}, dim={dim})", f"torch.cumsum({{x}}.flip({dim}), dim={dim}).flip({dim})",
        f"torch.cumsum({{x}}, dim={dim}) - {{x}}", f"{{x}} / (1.0 + torch.cumsum(torch.abs({{x}}), dim={dim}))",
    )  # fmt: skip
    chain.write("scan", chain.chance.choice(ways))
    return True


def masked(chain: Chain) -> bool:
    """Another input that hides values."""
    if len(chain.inputs) > 2 or len(chain.shape) > 2:
        return False
    name = chain.second(chain.shape if chain.flag(0.6) else chain.shape[-1:])
    other = name if chain.inputs[name] == chain.shape else f"{name}.unsqueeze(1)"
    ways = (
        f"{{x}} * {other}", f"{{x}}.masked_fill({other} < 0, {{number}})", f"torch.where({other} > 0, {{x}}, {{slope}} * {{x}})",
        f"{{x}} - {{number}} * (1.0 - {other})", f"{{x}}.masked_fill({other} > {{slope}}, 0.0)",
        f"{{x}}.masked_fill(~({other} > 0), 0.0)", f"torch.where({other} < {{slope}}, torch.zeros_like({{x}}), {{x}})",
    )  # fmt: skip
    chain.write("masked", chain.chance.choice(ways))
    return True


def flagged(chain: Chain) -> bool:
    """A mask of yes and no, for each sample or for all, over some of the dimensions; now and then a sum along one follows."""
    if len(chain.inputs) > 2:
        return False
    is_shared = chain.flag(0.4)
    sizes = tuple(_some_of(chain)) if is_shared else tuple(size if chain.flag(0.6) else 1 for size in chain.shape)
    sign, names = chain.chance.choice((">", "<")), ("mask", "keep", "valid", "hidden_at", "padding")
    if chain.flag(0.3):  # whole numbers, of which some mean no
        name = chain.second(sizes, is_shared, names, "torch.randint(0, 2, ({size},))")
        name = chain.chance.choice((f"({name} == 0)", f"({name} > 0)", f"({name} != 0)"))
    else:
        name = chain.second(sizes, is_shared, names, f"torch.rand({{size}}) {sign} 0.4")
    chain.write("flagged", chain.chance.choice(FLAGGED).replace("M", name))
    return scan(chain) if chain.flag(0.3) else True


def drop(chain: Chain) -> bool:
    """Dropout that drops nothing."""
    name = chain.attribute(("drop", "dropout"), "nn.Dropout(0.0)")
    chain.write("dropout", f"{name}({{x}})")
    return True


def both(chain: Chain) -> bool:
    """Two values side by side."""
    fitting = [name for name, shape in chain.earlier.items() if shape == chain.shape]
    if not fitting or not chain.shape:
        return False
    dim = chain.channel_dim
    shape = list(chain.shape)
    shape[dim - 1] *= 2
    chain.write("cat", f"torch.cat([{{x}}, {chain.chance.choice(fitting)}], dim={dim})", tuple(shape))
    return True


def _some_dim(chain: Chain, negative: bool = True) -> int:
    """Mostly the channels or the last one."""
    last = len(chain.shape)
    dim = chain.chance.choice((chain.channel_dim, chain.channel_dim, last, chain.chance.randint(1, last)))
    return dim - last - 1 if negative and chain.flag(0.4) else dim


STEPS: tuple[tuple[Step, float], ...] = (
    (activation, 27), (number, 13), (parameter, 11), (residual, 8), (keep, 5), (norm, 8), (formula_norm, 7), (reduction, 9), (pooling, 7),
    (look, 6), (layer, 5), (scan, 1.5), (masked, 1.5), (drop, 1.5), (both, 1.5), (cut, 4), (gate, 6), (shared_input, 4),
    (flagged, 3), (recurrent, 3), (twin, 4), (spread_parameter, 5), (flattened, 4), (entropy, 1.5), (prototypes, 2.5),
)  # fmt: skip
"""With how often each is tried."""
