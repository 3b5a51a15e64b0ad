"""Depthwise convolutions over padded planes, and transposed ones phase by phase."""

from __future__ import annotations

from bottega.compiler.backends.cpp.conv_loops import Field, transposed_place
from bottega.compiler.backends.cpp.loop_text import block, braced, collapse, head, heads, indent, nest, region
from bottega.compiler.backends.cpp.map import tabled
from bottega.compiler.backends.cpp.space import factor
from bottega.compiler.library.cpp.vectors import LOAD, PANEL, VECTOR

PHASE_ROWS, FEWEST_CHANNELS = 6, 4
"""Output channels of a transposed convolution's tile; of fewer input channels a padded copy is not worth its time."""


class _Padded:
    """A zero-padded copy of input planes, whose rows are split by the stride, so that neighbouring outputs read neighbours."""

    def __init__(self, field: Field, vectors: str) -> None:
        self.field = field
        function, kernel = field.function, field.kernel
        function.prelude.add("vector", VECTOR)
        function.prelude.add("load", LOAD)
        last = field.count - 1
        self.stride, self.pad, self.dilation = kernel.stride[last], kernel.padding[last], kernel.dilation[last]
        self.name, self.line, self.tiles = (
            function.fresh("padded", "copy"),
            function.fresh("line", "padded_width"),
            function.fresh("tiles", "parts"),
        )
        self.wide = f"({vectors} * LANES)"
        self.heights = []
        for at in range(last):
            pad = kernel.padding[at]
            self.heights.append(f"({field.source[at].size} + {2 * pad})" if pad else field.source[at].size)
        out, source, tap = field.out[last], field.source[last], field.tap[last]
        reach = tap.size if self.dilation == 1 else f"{tap.size} * {self.dilation}"
        width = f"{source.size} + {2 * self.pad}" if self.pad else source.size
        if self.stride > 1:
            reach, width = f"{reach} / {self.stride} + 1", f"({width}) / {self.stride} + 1"
        self.declared = [
            f"const int64_t {self.tiles} = ({out.size} + {vectors} * LANES - 1) / {self.wide};",
            f"const int64_t {self.line} = std::max({self.tiles} * {vectors} * LANES + {reach}, {width});",
        ]
        self.row = self.line if self.stride == 1 else f"{self.stride} * {self.line}"
        self.plane = " * ".join([*self.heights, self.row])

    def row_start(self, rows: list[str], plane: str = "") -> str:
        """The start of a padded row; `rows` are padded positions in the outer dimensions of space."""
        text = plane
        for height, row in zip(self.heights, rows):
            text = f"{factor(text)} * {height} + {row}" if text else row
        return f"{factor(text or '0')} * {self.row}"

    def copy(self, plane: str, channel: str) -> list[str]:
        """Lines that fill one plane."""
        field = self.field
        last = field.count - 1
        rows = []
        for at in range(last):
            pad = field.kernel.padding[at]
            rows.append(f"{field.source[at].index} + {pad}" if pad else field.source[at].index)
        x = field.source[last].index
        shifted = f"{x} + {self.pad}" if self.pad else x
        start = self.row_start([f"({row})" if " " in row else row for row in rows], plane)
        if self.stride == 1:
            target = f"{start} + {shifted}"
        else:
            wrapped = f"({shifted})" if " " in shifted else shifted
            target = f"{start} + {wrapped} % {self.stride} * {self.line} + {wrapped} / {self.stride}"
        lines = heads(field.source)
        target = target.removeprefix("0 * " + self.row + " + ")
        return [*lines, indent(f"{self.name}[{target}] = {field.element(channel)};", field.count)]

    def tap_offset(self) -> str:
        tap = self.field.tap[-1].index
        at = tap if self.dilation == 1 else f"{tap} * {self.dilation}"
        if self.stride == 1:
            return at
        wrapped = f"({at})" if " " in at else at
        return f"{wrapped} % {self.stride} * {self.line} + {wrapped} / {self.stride}"

    def in_rows(self) -> list[str]:
        """Padded positions in the outer dimensions, for an output and its taps."""
        field, rows = self.field, []
        for at in range(field.count - 1):
            text = field.out[at].index + (f" * {field.kernel.stride[at]}" if field.kernel.stride[at] != 1 else "")
            text += f" + {field.tap[at].index}" + (f" * {field.kernel.dilation[at]}" if field.kernel.dilation[at] != 1 else "")
            rows.append(f"({text})")
        return rows


def plane_by_plane(field: Field) -> list[str]:
    """Depthwise: each thread pads one plane at a time into scratch of its own. A tile is as many vectors of a row as divide it best, and two rows
    where both need the same neighbours: a row that is loaded then meets two rows of the filter."""
    function = field.function
    across = function.fresh("across", "vectors")
    padded = _Padded(field, across)
    o, last, inner = field.out_channel, field.out[-1], field.tap[-1]
    tile, sums, values, line = (
        function.fresh(*w) for w in (("t", "tile"), ("sum", "sums"), ("values", "tile_values"), ("in", "input"))
    )
    needed = f"({last.length} + LANES - 1) / LANES"
    declared = [f"constexpr int64_t {across} = ({needed} + ({needed} + 3) / 4 - 1) / (({needed} + 3) / 4);"]
    two = field.count == 2 and field.kernel.stride[0] == field.kernel.dilation[0] == 1 and field.out[0].length > 1
    first = function.fresh("first", "from_row")
    body = padded.copy("", o.index)
    weight, rows = field.weight(), padded.in_rows()
    row = values
    if two:
        y, ky, (taps, some) = field.out[0], field.tap[0], (function.fresh("taps", "filter"), function.fresh("some", "part"))
        body += [
            f"float {taps}[({ky.length} + 2) * {inner.length}] = {{}};  // a row of zeros before and after",
            *nest(field.tap, [f"{taps}[({ky.index} + 1) * {inner.length} + {inner.index}] = {weight};"]),
        ]
        rows, row = [f"({first} + {ky.index})"], f"{values}[{y.index} - {first}]"
        taken = [
            f"const vec {some} = load({line} + {padded.tap_offset()} + u * LANES);",
            f"{sums}[0][u] += {taps}[({ky.index} + 1) * {inner.length} + {inner.index}] * {some};",
            f"{sums}[1][u] += {taps}[{ky.index} * {inner.length} + {inner.index}] * {some};",
        ]
        outer = [f"for (int64_t {ky.index} = 0; {ky.index} <= {ky.size}; ++{ky.index})"]
    else:
        taken = [f"{sums}[u] += {weight} * load({line} + {padded.tap_offset()} + u * LANES);"]
        outer = [head(axis) for axis in field.tap[:-1]]
    start = f"{padded.row_start(rows)} + {tile} * {padded.wide}".removeprefix("0 * " + padded.row + " + ")
    many = "[2]" if two else ""
    reads = [
        f"const float* {line} = &{padded.name}[{start}];",
        head(inner) + " {",
        "  #pragma GCC unroll 4",
        f"  for (int64_t u = 0; u < {across}; ++u) {{",
        *(indent(text, 2) for text in taken),
        "  }",
        "}",
    ]
    before, each = field.tail(f"{row}[{last.index} - {tile} * {padded.wide}]")
    tables, before = tabled(function, before, o, [field.batch, *field.out])
    out = [
        *before,
        "#pragma omp simd",
        f"for (int64_t {last.index} = {tile} * {padded.wide}; {last.index} < std::min(({tile} + 1) * {padded.wide}, {last.size}); ++{last.index})",
        *block(each),
    ]
    loops = heads(field.out[:-1])
    if two:
        loops = [f"for (int64_t {first} = 0; {first} < {y.size}; {first} += 2)"]
        out = braced([f"for (int64_t {y.index} = {first}; {y.index} < std::min({first} + 2, {y.size}); ++{y.index})"], out)
    nested = [indent(text, at) for at, text in enumerate(outer)]
    work = [
        f"vec {sums}{many}[{across}] = {{}};",
        *(braced(nested, reads) if nested else reads),
        f"float {values}{many}[{across} * LANES];",
        f"std::memcpy({values}, {sums}, sizeof {values});",
        *out,
    ]
    loops.append(indent(f"for (int64_t {tile} = 0; {tile} < {padded.tiles}; ++{tile})", len(loops)))
    body += braced(loops, work)
    inside = [
        f"std::vector<float> {padded.name}({padded.plane}{f' + {padded.row}' if two else ''});",
        "#pragma omp for collapse(2) schedule(static)",
        *nest([field.batch, o], body),
    ]
    return [*tables, *declared, *padded.declared, *region("#pragma omp parallel", inside)]


def phases(field: Field) -> list[str]:
    """Transposed: the outputs of one phase are a dense sum along the row; the phases are interleaved on the way out."""
    function, kernel = field.function, field.kernel
    last = field.count - 1
    stride, pad, dilation = kernel.stride[last], kernel.padding[last], kernel.dilation[last]
    out, place, tap = field.out[last], field.source[last], field.tap[last]
    phase, count, j, shift, w, sums, memory = (
        function.fresh(*wish)
        for wish in (
            ("r", "phase"),
            ("count", "many"),
            ("j", "at"),
            ("shift", "move"),
            ("w", "factor"),
            ("sum", "sums"),
            ("memory", "scratch"),
        )
    )
    far = f"{phase} + {pad}" if pad else phase
    reach = tap.index if dilation == 1 else f"{tap.index} * {dilation}"
    lines = [
        f"const int64_t {count} = ({out.size} - {phase} + {stride} - 1) / {stride};"
        if stride > 1
        else f"const int64_t {count} = {out.size};",
        f"std::fill({sums}, {sums} + {count}, 0.f);",
    ]
    depth = 0
    closing: list[str] = []
    if field.channel.length > 1:
        lines.append(head(field.channel) + " {")
        closing.insert(0, "}")
        depth = 1
    for at in range(last):
        lines.append(indent(head(field.tap[at]) + " {", depth))
        lines += [indent(line, depth + 1) for line in transposed_place(field, at)]
        closing.insert(0, indent("}", depth))
        depth += 1
    lines.append(indent(head(tap) + " {", depth))
    closing.insert(0, indent("}", depth))
    if stride > 1:
        lines.append(indent(f"if (({far} - {reach}) % {stride} != 0) continue;", depth + 1))
    shifted = f"({far} - {reach}) / {stride}" if stride > 1 else f"{pad} - {reach}" if pad else f"-{reach}"
    lines += [
        indent(text, depth + 1)
        for text in [
            f"const int64_t {shift} = {shifted};",
            f"const float {w} = {field.weight()};",
            "#pragma omp simd",
            f"for (int64_t {j} = std::max<int64_t>(0, -{shift}); {j} < std::min({count}, {place.size} - {shift}); ++{j})",
            f"  {sums}[{j}] += {w} * {field.element(**{place.index: f'({j} + {shift})'})};",
        ]
    ]
    lines += closing
    final = [
        *([f"const int64_t {out.index} = {j} * {stride} + {phase};"] if stride > 1 else [f"const int64_t {out.index} = {j};"]),
        *field.results(f"{sums}[{j}]"),
    ]
    lines += [f"for (int64_t {j} = 0; {j} < {count}; ++{j})", *block(final)]
    axes = [field.batch, field.out_channel, *field.out[:-1]]
    if stride > 1:
        lines = braced([f"for (int64_t {phase} = 0; {phase} < std::min<int64_t>({stride}, {out.size}); ++{phase})"], lines)
    inside = [
        f"std::vector<float> {memory}({out.size});",
        f"float* {sums} = {memory}.data();",
        f"#pragma omp for{collapse(len(axes))} schedule(static)",
        *nest(axes, lines),
    ]
    return region("#pragma omp parallel", inside)


def phase_tiles(field: Field) -> list[str]:
    """The same over a padded copy of an image: some channels by two vectors of one phase stay in registers while taps and channels pass."""
    function, kernel = field.function, field.kernel
    for name, text in (("vector", VECTOR), ("panel", PANEL), ("load", LOAD)):
        function.prelude.add(name, text)
    last = field.count - 1
    stride, pad, dilation = kernel.stride[last], kernel.padding[last], kernel.dilation[last]
    out, place, tap, o, c = field.out[last], field.source[last], field.tap[last], field.out_channel, field.channel
    words = "padded before columns wide first phase at from each sum values lane high count place side"
    n = {word: function.fresh(word, f"{word}_") for word in words.split()}
    rows = " * ".join([c.size, *(axis.size for axis in field.source[:-1])])
    row = c.index
    for axis in field.source[:-1]:
        row = f"{factor(row)} * {axis.size} + {axis.index}"
    line = f"{n['padded']} + {factor(row)} * {n['wide']}"
    copy = nest(
        field.source[:-1],
        [
            f"float* {n['place']} = {line};",
            f"std::fill({n['place']}, {n['place']} + {n['wide']}, 0.f);",
            "#pragma omp simd",
            head(place),
            f"  {n['place']}[{n['before']} + {place.index}] = {field.element(c.index)};",
        ],
    )
    reach = tap.index if dilation == 1 else f"{tap.index} * {dilation}"
    far = f"{n['phase']} + {pad}" if pad else n["phase"]
    u, lane = n["high"], n["lane"]
    depth, taps = " * ".join([c.size, *(axis.size for axis in field.tap)]), "0"
    for axis in field.tap:
        taps = axis.index if taps == "0" else f"{factor(taps)} * {axis.size} + {axis.index}"
    weight = f"{n['side']}[{n['first']} * {depth} + ({factor(taps)} * {c.size} + {c.index}) * {PHASE_ROWS} + {u}]"
    there = f"{n['first']} + {u}"
    each_high = f"for (int64_t {u} = 0; {u} < {PHASE_ROWS}; ++{u})"
    fill = braced(
        [f"for (int64_t {n['first']} = 0; {n['first']} < {o.size}; {n['first']} += {PHASE_ROWS})"],
        nest([*field.tap, c], [each_high, f"  {weight} = {there} < {o.size} ? {field.weight(f'({there})')} : 0.f;"]),
    )
    taken = [
        head(c) + " {",
        f"  const float* {n['from']} = {line} + {n['before']} + {n['at']} + ({far} - {reach}) / {stride};",
        "  #pragma GCC unroll 3",
        f"  for (int64_t {lane} = 0; {lane} < ACROSS; ++{lane}) {{",
        f"    const vec {n['each']} = load({n['from']} + {lane} * LANES);",
        f"    #pragma GCC unroll {PHASE_ROWS}",
        f"    {each_high} {n['sum']}[{u}][{lane}] += {weight} * {n['each']};",
        "  }",
        "}",
    ]
    if stride > 1:
        taken.insert(0, f"if (({far} - {reach}) % {stride} != 0) continue;")
    taken = braced([head(tap)], taken)
    for at in reversed(range(last)):
        taken = braced([head(field.tap[at])], [*transposed_place(field, at), *taken])
    whole = f"{n['at']} * {stride} + {n['phase']}" if stride > 1 else n["at"]
    x = n["count"]
    before, each = field.tail(f"{n['values']}[{o.index} - {n['first']}][{x} - {n['at']}]")
    index = f"const int64_t {out.index} = {whole.replace(n['at'], x)};"
    ends = f"({out.size} - {n['phase']} + {stride - 1}) / {stride}" if stride > 1 else out.size
    tile = [
        f"vec {n['sum']}[{PHASE_ROWS}][ACROSS] = {{}};",
        *taken,
        f"float {n['values']}[{PHASE_ROWS}][BROAD];",
        f"std::memcpy({n['values']}, {n['sum']}, sizeof {n['values']});",
        f"for (int64_t {o.index} = {n['first']}; {o.index} < std::min<int64_t>({n['first']} + {PHASE_ROWS}, {o.size}); ++{o.index}) {{",
        *(indent(text, 1) for text in before),
        f"  for (int64_t {x} = {n['at']}; {x} < std::min<int64_t>({n['at']} + BROAD, {ends}); ++{x})",
        *(indent(text, 1) for text in block([index, *each])),
        "}",
    ]
    loops = [
        f"for (int64_t {n['first']} = 0; {n['first']} < {o.size}; {n['first']} += {PHASE_ROWS})",
        *(head(axis) for axis in field.out[:-1]),
        f"for (int64_t {n['phase']} = 0; {n['phase']} < {stride}; ++{n['phase']})",
        f"for (int64_t {n['at']} = 0; {n['at']} < {n['columns']}; {n['at']} += BROAD)",
    ]
    work = braced([indent(text, at) for at, text in enumerate(loops)], tile)
    furthest = (kernel.weight.shape[2 + last] - 1) * dilation // stride + 1
    declared = [
        f"const int64_t {n['before']} = {furthest}, {n['columns']} = ({out.size} + {stride - 1}) / {stride};",
        f"const int64_t {n['wide']} = {n['before']} + std::max<int64_t>({place.size}, {n['columns']} + {(pad + stride) // stride}) + BROAD;",
        f"float* const {n['padded']} = reinterpret_cast<float*>(kept_panels({rows} * {n['wide']} / LANES + 1));",
        f"std::vector<float> {n['side']}(({o.size} + {PHASE_ROWS}) * {depth});  // a tile's weights side by side",
        "#pragma omp parallel for schedule(static)",
        *fill,
    ]
    shared = [
        "#pragma omp for schedule(static)",
        *nest([c], copy),
        f"#pragma omp for{collapse(len(loops))} schedule(static)",
        *work,
    ]
    return [*declared, *nest([field.batch] if field.batch.length > 1 else [], region("#pragma omp parallel", shared))]
