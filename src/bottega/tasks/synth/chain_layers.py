"""The steps of a chain that have a layer: products, convolutions, two of them side by side, recurrent layers, norms and poolings."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from bottega.tasks.synth.chain_state import Chain
from bottega.tasks.synth.chain_templates import JOINED, LAYERS, SHIFTS


def layer(chain: Chain) -> bool:
    """A product or a convolution."""
    if not chain.maps:
        features = chain.shape[-1]
        out = chain.chance.choice((64, 128, 256, 512, 1000, 1024, 2048, features, features))
        if features * out > 5e7 or features > 20_000:
            return False
        if len(chain.shape) == 2 and chain.flag(0.5):
            return _along_sequence(chain, out)
        shape = (*chain.shape[:-1], out)
        chain.products += 2.0 * prod(chain.shape) * out
        way = chain.chance.random()
        if way > 0.93 and len(chain.shape) == 1:
            shift = chain.attribute(SHIFTS, f"nn.Parameter(0.1 * torch.randn({out}))")
            name = chain.attribute(
                ("W", "matrix", "basis"), f"nn.Parameter(torch.randn({features}, {out}) / {features} ** 0.5)"
            )
            chain.write("matmul", f"torch.addmm({shift}, {{x}}, {name})", shape)
        elif way < 0.75:
            bias = "" if chain.flag(0.75) else ", bias=False"
            name = chain.attribute(LAYERS, f"nn.Linear({features}, {out}{bias})")
            chain.write("linear", f"{name}({{x}})", shape)
        else:
            start = f"nn.Parameter(torch.randn({features}, {out}) / {features} ** 0.5)"
            name = chain.attribute(("W", "matrix", "mixing", "basis"), start)
            ways = ("{x} @ N", "torch.matmul({x}, N)", "torch.matmul({x}, N)")
            chain.write("matmul", chain.chance.choice(ways).replace("N", name), shape)
        return True
    return _convolution(chain)


def _along_sequence(chain: Chain, out: int) -> bool:
    """A product with another input, sample by sample, or a convolution over the sequence, which is turned for it and back."""
    length, features = chain.shape
    if chain.flag(0.5) and length > 8:
        window = chain.chance.choice((3, 3, 5, 7))
        name = chain.attribute(LAYERS, f"nn.Conv1d({features}, {out}, {window}, padding={window // 2})")
        chain.products += 2.0 * length * features * out * window
        chain.write("conv", f"{name}({{x}}.transpose(1, 2)).transpose(1, 2)", (length, out))
        return True
    if len(chain.inputs) > 1:
        return False
    turned = chain.flag(0.4)
    other = chain.second((out, features) if turned else (features, out))
    right = f"{other}.transpose(1, 2)" if turned else other
    ways = [f"torch.bmm({{x}}, {right})", f"torch.matmul({{x}}, {right})", f"{{x}} @ {right}"]
    ways.append(f"torch.einsum('bik,b{'jk' if turned else 'kj'}->bij', {{x}}, {other})")
    if chain.flag(0.25):
        shift = chain.attribute(SHIFTS, f"nn.Parameter(0.1 * torch.randn(1, 1, {out}))")
        ways = [f"torch.baddbmm({shift}, {{x}}, {right})"]
    chain.products += 2.0 * length * features * out
    chain.write("matmul", chain.chance.choice(ways), (length, out))
    return True


def _convolution(chain: Chain) -> bool:
    maps, (channels, *places) = chain.maps, chain.shape
    if min(places) < 4:
        return False
    out = chain.chance.choice((8, 16, 24, 32, 48, 64, 64, 96, 128, channels, channels))
    turned = chain.flag(0.35)
    window = chain.chance.choice((3, 3, 3, 1, 5, 4, 7) if maps < 3 else (3, 3, 2, 1))
    if turned:
        window = max(window, 2)
        stride = chain.chance.choice((1, 2, 2))
        padding = chain.chance.choice((0, window // 2))
        extra = 1 if stride == 2 and chain.flag(0.4) else 0
        after = tuple((place - 1) * stride - 2 * padding + window + extra for place in places)
        more = f", output_padding={extra}" if extra else ""
        groups = ""
    elif chain.flag(0.2):
        return _odd_convolution(chain, out)
    else:
        stride = chain.chance.choice((1, 1, 1, 2))
        dilation = 2 if window == 3 and chain.flag(0.12) else 1
        padding = chain.chance.choice((0, dilation * (window // 2), dilation * (window // 2)))
        after = tuple((place + 2 * padding - dilation * (window - 1) - 1) // stride + 1 for place in places)
        more = f", dilation={dilation}" if dilation > 1 else ""
        alone = channels > 1 and chain.flag(0.12)
        out = channels if alone else out
        groups = f", groups={channels}" if alone else ""
    if min(after) < 1 or prod(after) * out > 3e7:
        return False
    options = ", ".join([str(channels), str(out), f"kernel_size={window}" if chain.flag(0.5) else str(window)])
    options += (f", stride={stride}" if stride > 1 else "") + (f", padding={padding}" if padding else "") + more + groups
    options += "" if chain.flag(0.75) else ", bias=False"
    name = chain.attribute(LAYERS, f"nn.Conv{'Transpose' if turned else ''}{maps}d({options})")
    depth = 1 if groups else channels
    chain.products += 2.0 * prod(after if not turned else places) * out * depth * window**maps
    chain.write("conv_transpose" if turned else "conv", f"{name}({{x}})", (out, *after))
    return True


def _odd_convolution(chain: Chain, out: int) -> bool:
    """Windows that are longer one way than the other, padding by its name, a few groups."""
    maps, (channels, *places) = chain.maps, chain.shape
    windows = tuple(chain.chance.choice((1, 3, 3, 5)) for _ in places)
    windows = windows if maps > 1 and chain.flag(0.6) else windows[:1] * maps
    same = chain.flag(0.5)
    padding = tuple(window // 2 if same or chain.flag(0.6) else 0 for window in windows)
    groups = chain.chance.choice((1, 1, 2, 4))
    if channels % groups or out % groups:
        groups = 1
    after = tuple(place + 2 * pad - window + 1 for place, pad, window in zip(places, padding, windows))
    if min(after) < 1 or prod(after) * out > 3e7:
        return False
    options = f"{channels}, {out}, {windows if maps > 1 else windows[0]}"
    options += ', padding="same"' if same else f", padding={padding if maps > 1 else padding[0]}" if any(padding) else ""
    options += (f", groups={groups}" if groups > 1 else "") + ("" if chain.flag(0.75) else ", bias=False")
    name = chain.attribute(LAYERS, f"nn.Conv{maps}d({options})")
    chain.products += 2.0 * prod(after) * out * channels / groups * prod(windows)
    chain.write("conv", f"{name}({{x}})", (out, *after))
    return True


def prototypes(chain: Chain) -> bool:
    """Rows against rows that the module keeps, both of length one: a product with a computed weight."""
    if chain.maps or chain.shape[-1] > 4096:
        return False
    count, features = chain.chance.choice((100, 256, 500, 1000, 2048)), chain.shape[-1]
    name = chain.attribute(("prototypes", "centres", "anchors", "classes"), f"nn.Parameter(torch.randn({count}, {features}))")
    own = chain.chance.choice(
        (f"F.normalize({name}, dim=-1)", f"F.normalize({name}, dim=1)", f"torch.tanh({name})", f"{name} * 0.1")
    )
    given = chain.chance.choice(("F.normalize({x}, dim=-1)", "{x}", "{x}"))
    ways = ("F.linear(A, B)", "torch.matmul(A, (B).t())", "A @ (B).T")
    chain.products += 2.0 * prod(chain.shape) * count
    chain.write("prototypes", chain.chance.choice(ways).replace("A", given).replace("B", own), (*chain.shape[:-1], count))
    return True


def twin(chain: Chain) -> bool:
    """Two layers of one kind over the same values, of which one mostly opens and shuts the other; now and then a third value beside them."""
    before = chain.shape
    if chain.maps:
        channels, *places = before
        window = chain.chance.choice((1, 3, 3, 5)) if min(places) > 5 else 1
        out, wide = chain.chance.choice((16, 32, 48, 64, 128, channels, channels)), chain.chance.choice((1, 1, 1, 2, 4))
        more = f", {window}, padding={wide * (window // 2)}" if window > 1 else ", 1"
        more += f", dilation={wide}" if wide > 1 else ""
        kind, shape = f"Conv{chain.maps}d", (out, *places)
        chain.products += 4.0 * prod(shape) * channels * window**chain.maps
    else:
        out, more = chain.chance.choice((64, 128, 256, 512, 1000, 1024, before[-1], before[-1])), ""
        kind, shape = "Linear", (*before[:-1], out)
        chain.products += 4.0 * prod(before) * out
    if before[0 if chain.maps else -1] * out > 2e7 or prod(shape) > 3e7:
        return False
    bias = "" if chain.flag(0.75) else ", bias=False"
    size = f"{before[0 if chain.maps else -1]}, {out}{more}{bias}"
    a, b = (
        chain.attribute(names, f"nn.{kind}({size})")
        for names in (LAYERS, ("gate", "gate_proj", "filter_conv", "up", "w2", *LAYERS))
    )
    text = chain.chance.choice(JOINED)
    if chain.flag(0.4):
        left, right = chain.chance.choice((("a", "b"), ("value", "gate"), ("u", "v"), ("h1", "h2")))
        chain.lines += [f"{left} = {a}(x)", f"{right} = {b}(x)"]
        text = text.replace("A", left).replace("B", right)
    else:
        text = text.replace("A", f"{a}({{x}})").replace("B", f"{b}({{x}})")
    if shape == before and chain.flag(0.4):
        text = chain.chance.choice(("{x} + T", "T + {x}", "{x} - T")).replace("T", text)
    chain.moved += 8.0 * prod(shape)
    chain.write("twin", text, shape)
    return True


def recurrent(chain: Chain) -> bool:
    """A recurrent layer over a sequence, with or without a state to begin with; often only its last step goes on."""
    if chain.maps or len(chain.shape) != 2 or chain.shape[0] > 256:
        return False
    length, features = chain.shape
    hidden, layers = chain.chance.choice((64, 128, 200, 256, 384)), chain.chance.choice((1, 1, 2, 3))
    kind, twice = chain.chance.choice(("GRU", "LSTM", "RNN")), chain.flag(0.25)
    more = f", num_layers={layers}" if layers > 1 else ""
    more += ", bidirectional=True" if twice else ""
    name = chain.attribute(
        (kind.lower(), "recurrent", "rnn1", "cell"), f"nn.{kind}({features}, {hidden}{more}, batch_first=True)"
    )
    given = "x"
    if kind != "LSTM" and len(chain.inputs) < 3 and chain.flag(0.4):
        rows = layers * (2 if twice else 1)
        given += ", " + chain.second(
            (rows, hidden), True, ("h0", "state", "hidden"), f"torch.randn({rows}, batch_size, {hidden})"
        )
    chain.lines.append(
        chain.chance.choice((f"x, _ = {name}({given})", f"x = {name}({given})[0]", f"x, state_out = {name}({given})"))
    )
    chain.operators.append("recurrent")
    chain.products += 8.0 * length * hidden * (features + hidden) * layers
    chain.shape = (length, hidden * (2 if twice else 1))
    if chain.flag(0.5):
        ways = ("{x}[:, -1]", "{x}[:, -1, :]", "{x}.mean(dim=1)", "{x}[:, 0]", "{x}.amax(dim=1)")
        chain.write("look", chain.chance.choice(ways), chain.shape[-1:])
    return True


def norm(chain: Chain) -> bool:
    channels, maps = chain.channels, chain.maps
    kinds: list[Callable[[], str]] = []
    if maps:
        dims = ", ".join(map(str, chain.shape))
        kinds += [
            lambda: f"nn.BatchNorm{maps}d({channels})",
            *(
                (lambda: f"nn.InstanceNorm{maps}d({channels}{', affine=True' if chain.flag(0.5) else ''})",)
                if prod(chain.shape[1:]) > 1
                else ()
            ),
            lambda: f"nn.GroupNorm({_divisor(chain, channels)}, {channels})",
            lambda: f"nn.LayerNorm({chain.shape[-1]})",
            lambda: f"nn.LayerNorm([{dims}])",
        ]
    elif len(chain.shape) == 1:
        kinds += [
            lambda: f"nn.BatchNorm1d({channels})",
            lambda: f"nn.GroupNorm({_divisor(chain, channels)}, {channels})",
            lambda: f"nn.LayerNorm({channels})",
            lambda: f"nn.LayerNorm({channels}, elementwise_affine=False)",
        ]
    else:
        kinds += [lambda: f"nn.LayerNorm({channels})", lambda: f"nn.RMSNorm({channels})"]
    layer = chain.chance.choice(kinds)()
    name = chain.attribute(("norm", "bn", "ln", "normalise", "gn"), layer)
    if maps and chain.flag(0.2):
        moved = ", ".join(["0", *map(str, range(2, maps + 2)), "1"])
        back = ", ".join(["0", str(maps + 1), *map(str, range(1, maps + 1))])
        name = chain.attribute(("channel_norm", "norm_last"), f"nn.LayerNorm({channels})")
        chain.made.pop(-2)
        chain.write("norm", f"{name}({{x}}.permute({moved})).permute({back})")
    else:
        chain.write("norm", f"{name}({{x}})")
    return True


def _divisor(chain: Chain, channels: int) -> int:
    return chain.chance.choice([groups for groups in (1, 2, 4, 8, 16, 32) if channels % groups == 0])


def pooling(chain: Chain) -> bool:
    maps, size = chain.maps, min(chain.shape[1:] or (0,)) if chain.maps else 0
    if not maps:
        return _pooled_rows(chain)
    if size < 4:
        return False
    channels, *places = chain.shape
    kind = chain.chance.choice(("max", "avg", "avg", "max", "adaptive", "adaptive_max", "same"))
    if kind.startswith("adaptive"):
        target = chain.chance.choice((1, 1, 1, 2, 4)) if kind == "adaptive" else 1
        which = "Avg" if kind == "adaptive" else "Max"
        name = chain.attribute(("pool", "squeeze", "summary"), f"nn.Adaptive{which}Pool{maps}d({target})")
        chain.write("adaptive_pool", f"{name}({{x}})", (channels, *([target] * maps)))
        return True
    window, stride, padding = (3, 1, 1) if kind == "same" else chain.chance.choice(((2, 2, 0), (2, 2, 0), (3, 2, 1), (3, 3, 0)))
    which = chain.chance.choice(("max", "avg")) if kind == "same" else kind
    options = f"{window}" if stride == window and not padding else f"kernel_size={window}, stride={stride}, padding={padding}"
    after = tuple((place + 2 * padding - window) // stride + 1 for place in places)
    if chain.flag(0.6):
        name = chain.attribute(("pool", "down", "shrink"), f"nn.{which.title()}Pool{maps}d({options})")
        chain.write(f"{which}_pool", f"{name}({{x}})", (channels, *after))
    else:
        chain.write(f"{which}_pool", f"F.{which}_pool{maps}d({{x}}, {options})", (channels, *after))
    return True


def _pooled_rows(chain: Chain) -> bool:
    """Rows as maps of one channel, pooled, and as rows again; or in groups, of which one number each is left."""
    window = chain.chance.choice((2, 3, 4, 5, 8, 10, 16))
    if len(chain.shape) != 1 or chain.shape[0] % window or chain.shape[0] < 64:
        return False
    count = chain.shape[0] // window
    if chain.flag(0.35):
        which = chain.chance.choice(("avg", "max"))
        name = chain.attribute(("pool", "window"), f"nn.{which.title()}Pool1d({window})")
        chain.write(f"{which}_pool", f"{name}({{x}}.unsqueeze(1)).squeeze(1)", (count,))
        return True
    way = chain.chance.choice(("mean", "amax", "amin", "sum", "logsumexp"))
    looks = (
        (f"{{x}}.view(x.shape[0], {count}, {window}).{way}(dim=2)", count), (f"{{x}}.reshape(x.shape[0], -1, {window}).{way}(dim=-1)", count),
        (f"{{x}}.unflatten(1, ({count}, {window})).{way}(-1)", count), (f"torch.{way}({{x}}.view(-1, {window}, {count}), dim=1)", count),
        (f"{{x}}.reshape(x.shape[0], {window}, -1).{way}(dim=2)", window),
    )  # fmt: skip
    text, features = chain.chance.choice(looks)
    chain.write(way, text, (features,))
    return True
