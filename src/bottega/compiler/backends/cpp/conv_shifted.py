"""Convolutions over a padded copy of the input, split by the stride, in which a tap's inputs lie at one distance from all outputs.

So neighbouring outputs read neighbours, also across the ends of rows, and the sum over channels and taps is a product whose right operand is
never written down: a tile of channels by vectors of outputs stays in registers, as in `matmul`. What is computed for the padding between two
rows is thrown away.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.cpp.conv_loops import Field
from bottega.compiler.backends.cpp.loop_text import block, braced, head, heads, indent, nest, region
from bottega.compiler.backends.cpp.map import tabled
from bottega.compiler.backends.cpp.matmul import FEW_WEIGHTS, MANY_BATCHES
from bottega.compiler.backends.cpp.space import Axis
from bottega.compiler.library.cpp.vectors import LOAD, PANEL, VECTOR
from bottega.compiler.loops import Loop

TALL = {6: 1.0, 5: 0.97, 4: 0.93, 3: 0.8, 2: 0.6}
"""Channels of a tile, and about which part of the machine's speed so many sums keep busy."""
WISHES = "padded line plane image span tiles depth places at place tile first t u l k sum in taps from values row stop last each phase flat"


def tile_height(channels: int, groups: int) -> int:
    """So many channels of a tile that few are computed in vain; 0 where groups cannot be cut into tiles."""
    own = channels // groups
    fits = [high for high in TALL if groups == 1 or own % high == 0]
    return max(fits, key=lambda high: TALL[high] * own / (high * -(-own // high)), default=0)


def shifted(field: Field, height: int) -> list[str]:
    function, kernel = field.function, field.kernel
    for name, text in (("vector", VECTOR), ("panel", PANEL), ("load", LOAD)):
        function.prelude.add(name, text)
    n = {word: function.fresh(word, f"{word}_") for word in WISHES.split()}
    copy = _PhaseCopy(field, n)
    o, batch = field.out_channel, field.batch
    taps, weights = _weights(field, n)
    end = f"std::min<int64_t>({n['first']} + {height}, {o.size})"
    channels = field.all_channels()
    group = "" if kernel.groups == 1 else f" + {n['first']} / {field.out_per_group()} * {field.channel.size} * {n['image']}"
    before, each = field.tail(
        f"{n['values']}[{o.index} - {n['first']}][{n['row']} * {n['line']} + {field.out[-1].index} - {n['at']}]"
    )
    tables, before = tabled(function, before, o, [batch, *field.out])
    u, lane, k, x = n["u"], n["l"], n["k"], field.out[-1].index
    tile = [
        f"const int64_t {n['at']} = {n['t']} * BROAD, {n['last']} = std::min({n['at']} + BROAD, {n['span']});",
        f"const float* {n['taps']}[{height}];",
        f"for (int64_t {u} = 0; {u} < {height}; ++{u}) {n['taps']}[{u}] = {taps} + std::min({n['first']} + {u}, {o.size} - 1) * {n['depth']};",
        f"const float* {n['from']} = {n['padded']} + {n['at']}{group};",
        f"vec {n['sum']}[{height}][ACROSS] = {{}};",
        f"for (int64_t {k} = 0; {k} < {n['depth']}; ++{k}) {{",
        f"  const float* {n['in']} = {n['from']} + {n['places']}[{k}];",
        "  #pragma GCC unroll 3",
        f"  for (int64_t {lane} = 0; {lane} < ACROSS; ++{lane}) {{",
        f"    const vec {n['each']} = load({n['in']} + {lane} * LANES);",
        f"    #pragma GCC unroll {height}",
        f"    for (int64_t {u} = 0; {u} < {height}; ++{u}) {n['sum']}[{u}][{lane}] += {n['taps']}[{u}][{k}] * {n['each']};",
        "  }",
        "}",
        f"float {n['values']}[{height}][BROAD];",
        f"std::memcpy({n['values']}, {n['sum']}, sizeof {n['values']});",
        f"const int64_t {n['place']} = {n['at']} / {n['line']};",
        f"for (int64_t {o.index} = {n['first']}; {o.index} < {end}; ++{o.index}) {{",
        *(indent(line, 1) for line in before),
        f"  int64_t {n['row']} = {n['place']};",
        f"  for (int64_t {n['tile']} = {n['at']}; {n['tile']} < {n['last']}; ++{n['row']}) {{",
        *(indent(line, 2) for line in copy.outer_places()),
        f"    const int64_t {n['stop']} = std::min(({n['row']} + 1) * {n['line']}, {n['last']});",
        "    #pragma omp simd",
        f"    for (int64_t {x} = {n['tile']} - {n['row']} * {n['line']}; {x} < std::min({copy.most('stop')}, {field.out[-1].size}); ++{x})",
        *(indent(line, 2) for line in block(each)),
        f"    {n['tile']} = {n['stop']};",
        "  }",
        "}",
    ]
    blocks = f"for (int64_t {n['first']} = 0; {n['first']} < {o.size}; {n['first']} += {height})"
    panels = f"for (int64_t {n['t']} = 0; {n['t']} < {n['tiles']}; ++{n['t']})"
    few = math.prod(kernel.weight.shape) <= FEW_WEIGHTS
    loops = [panels, blocks] if few else [blocks, panels]  # few weights stay in the cache, and the image is read once
    work = braced([loops[0], indent(loops[1], 1)], tile)
    memory = (
        f"float* const {n['padded']} = reinterpret_cast<float*>(kept_panels(({channels} * {n['image']} + BROAD) / LANES + 1));"
    )
    declared = [*tables, *copy.declared(), *weights]
    if batch.length >= MANY_BATCHES:
        inside = [memory, "#pragma omp for schedule(static)", *nest([batch], [*copy.lines(), *work])]
        return [*declared, *region("#pragma omp parallel", inside)]
    shared = ["#pragma omp for schedule(static)", *copy.lines(), "#pragma omp for collapse(2) schedule(static)", *work]
    return [*declared, memory, *nest([batch] if batch.length > 1 else [], region("#pragma omp parallel", shared))]


def _weights(field: Field, n: dict[str, str]) -> tuple[str, list[str]]:
    """Where the weights of a channel lie one behind the other: themselves, or a copy in fp32."""
    function, kernel = field.function, field.kernel
    pointer = function.pointer(kernel.weight.buffer)
    if kernel.weight.contiguous and kernel.dtype == "float32":
        offset = function.offset(kernel.weight)
        return (f"{pointer} + {offset}" if offset else pointer), []
    axes = [field.out_channel, *([field.channel] if field.channel.length > 1 else []), *(a for a in field.tap if a.length > 1)]
    place = axes[0].index
    for axis in axes[1:]:
        place = f"({place}) * {axis.size} + {axis.index}" if " " in place else f"{place} * {axis.size} + {axis.index}"
    return f"{n['flat']}.data()", [
        f"std::vector<float> {n['flat']}({field.out_channel.size} * {n['depth']});",
        "#pragma omp parallel for schedule(static)",
        *heads(axes),
        indent(f"{n['flat']}[{place}] = {field.weight()};", len(axes)),
    ]


class _PhaseCopy:
    """The padded copy of one image: for each channel a plane for each phase of the stride, in the order of the outputs."""

    def __init__(self, field: Field, n: dict[str, str]) -> None:
        self.field, self.n = field, n
        kernel = field.kernel
        self.dims = list(zip(kernel.stride, kernel.padding, kernel.dilation))
        self.phases = math.prod(kernel.stride)
        self.sides = [field.function.fresh(w, f"{w}_") for w in ("deep", "tall")[3 - field.count :]] + [n["line"]]

    def declared(self) -> list[str]:
        """Sizes, and the distance of every tap."""
        field, n = self.field, self.n
        lines = []
        for side, source, (stride, pad, _) in zip(self.sides, field.source, self.dims):
            size = f"{source.size} + {2 * pad + stride - 1}" if 2 * pad + stride > 1 else source.size
            lines.append(f"const int64_t {side} = {f'({size}) / {stride}' if stride > 1 else size};")
        span = "0"
        for side, out in zip(self.sides, field.out):
            span = f"{out.size} - 1" if span == "0" else f"({span}) * {side} + {out.size} - 1"
        depth = [axis.size for axis in (field.channel, *field.tap) if axis.length > 1] or ["1"]
        lines += [
            f"const int64_t {n['plane']} = {' * '.join(self.sides)}, {n['image']} = {self.phases} * {n['plane']};",
            f"const int64_t {n['span']} = {span} + 1, {n['tiles']} = ({n['span']} + BROAD - 1) / BROAD, {n['depth']} = {' * '.join(depth)};",
            f"std::vector<int64_t> {n['places']};",
            f"{n['places']}.reserve({n['depth']});",
        ]
        phase, place = "", ""
        for side, tap, (stride, _, dilation) in zip(self.sides, field.tap, self.dims):
            reach = tap.index if dilation == 1 else f"{tap.index} * {dilation}"
            wrapped = f"({reach})" if " " in reach else reach
            rest, whole = (f"{wrapped} % {stride}", f"{wrapped} / {stride}") if stride > 1 else ("", reach)
            phase = _joined(phase, str(stride), rest) if stride > 1 else phase
            place = _joined(place, side, whole)
        distance = " + ".join(part for part in (f"{_factor(phase)} * {n['plane']}" if phase else "", place) if part)
        axes = [field.channel, *field.tap]
        lines += heads(axes)
        lines.append(indent(f"{n['places']}.push_back({field.channel.index} * {n['image']} + {distance});", len(axes)))
        return lines

    def outer_places(self) -> list[str]:
        """Where along the outer dimensions a row of the padded order lies."""
        field, n = self.field, self.n
        if field.count == 1:
            return []
        if field.count == 2:
            return [f"const int64_t {field.out[0].index} = {n['row']};"]
        return [
            f"const int64_t {field.out[0].index} = {n['row']} / {self.sides[1]}, {field.out[1].index} = {n['row']} % {self.sides[1]};"
        ]

    def most(self, stop: str) -> str:
        field, n = self.field, self.n
        end = f"{n[stop]} - {n['row']} * {n['line']}"
        return end if field.count < 3 else f"{field.out[1].index} < {field.out[1].size} ? {end} : 0"

    def lines(self) -> list[str]:
        """The copy of all channels of an image."""
        field, n = self.field, self.n
        channels = field.all_channels()
        channel = Axis(Loop(field.kernel.source.shape[1], (1,)), n["phase"], channels)
        start = f"{n['padded']} + {channel.index} * {n['image']}"
        rows, phase, place = [], "", ""
        for side, source, (stride, pad, _) in zip(self.sides[:-1], field.source[:-1], self.dims[:-1]):
            at = f"({source.index} + {pad})" if pad else source.index
            phase = _joined(phase, str(stride), f"{at} % {stride}") if stride > 1 else phase
            place = _joined(place, side, f"{at} / {stride}" if stride > 1 else at)
            rows.append(source)
        x, (stride, pad, _) = field.source[-1], self.dims[-1]
        r = n["tile"]
        phase = _joined(phase, str(stride), r) if stride > 1 else phase
        target = [
            start,
            f"{_factor(phase)} * {n['plane']}" if phase else "",
            f"{_factor(place)} * {n['line']}" if place else "",
        ]
        row = " + ".join(part for part in target if part)
        element = field.element(channel.index)
        if stride == 1:
            inner = [
                f"float* {n['row']} = {row}{f' + {pad}' if pad else ''};",
                "#pragma omp simd",
                head(x),
                f"  {n['row']}[{x.index}] = {element};",
            ]
        else:
            j = n["each"]
            low = f"std::max<int64_t>(0, ({pad} - {r} + {stride - 1}) / {stride})" if pad else "0"
            moved = f"({j} * {stride} + {r}{f' - {pad}' if pad else ''})"
            inner = [
                f"for (int64_t {r} = 0; {r} < {stride}; ++{r}) {{",
                f"  float* {n['row']} = {row};",
                "  #pragma omp simd",
                f"  for (int64_t {j} = {low}; {j} < ({x.size}{f' + {pad}' if pad else ''} - {r} + {stride - 1}) / {stride}; ++{j})",
                f"    {n['row']}[{j}] = {field.element(channel.index, **{x.index: moved})};",
                "}",
            ]
        fill = f"std::fill({start}, {start} + {n['image']}, 0.f);"
        return nest([channel], [fill, *nest(rows, inner)])


def _joined(held: str, size: str, index: str) -> str:
    return f"{_factor(held)} * {size} + {index}" if held else index


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text
