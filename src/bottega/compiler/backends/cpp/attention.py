"""Attention. Plain: a query at a time. Tiled: six queries against packed keys, their softmax, and the result against packed
values; the scores of six queries are all that ever exists of the score matrix."""

from __future__ import annotations

import math
from dataclasses import replace

from bottega.compiler.backends.cpp.emit import SIMD_FUNCTIONS, CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, collapse, head, indent, nest, region
from bottega.compiler.backends.cpp.map import pointers, stores
from bottega.compiler.backends.cpp.scalar import compute_type, literal
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads
from bottega.compiler.backends.cpp.sweeps import sweep
from bottega.compiler.kernel import ACCUMULATOR, Attention
from bottega.compiler.library.cpp.vectors import SIX, VECTOR
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View

TILES = "query_tiles"
LOWEST, LEAST = {"float": "-3.40282347e38f", "double": "-1.7976931348623157e308"}, "1e-30f"
"""Of the largest score, and of the sum that is divided by: a row whose keys are all masked is zero, as torch has it."""


class _Heads:
    """Axes over batch + (queries, keys, width, value width), and every operand seen over them."""

    def __init__(self, function: FunctionWriter, kernel: Attention) -> None:
        self.function, self.kernel = function, kernel
        count = len(kernel.batch)
        self.rank = count + 4

        def seen(view: View, places: tuple[int, int]) -> View:
            strides = [*view.strides[:count], 0, 0, 0, 0]
            strides[count + places[0]], strides[count + places[1]] = view.strides[-2], view.strides[-1]
            return replace(view, strides=tuple(strides), axes=())

        self.query, self.key, self.value = seen(kernel.query, (0, 2)), seen(kernel.key, (1, 2)), seen(kernel.value, (1, 3))
        self.mask = seen(kernel.mask, (0, 1)) if kernel.mask is not None else None
        bodies = [store.body for store in kernel.stores]
        for view in (self.query, self.key, self.value, *([self.mask] if self.mask else [])):
            function.pointer(view.buffer)
        pointers(function, bodies, kernel.stores)
        outputs = [*loads(bodies), *(store.view for store in kernel.stores)]
        inputs = [self.query, self.key, self.value]
        wide = [replace(view, strides=(*view.strides[:count], view.strides[-2], 0, 0, view.strides[-1])) for view in outputs]
        every = [*inputs, *([self.mask] if self.mask else []), *wide]
        merged = merge((*kernel.batch, 1, 1, 1, 1), every) if count else []
        loops = [loop for loop in merged if loop.axes]

        def axis(loop: Loop, index: str, wishes: tuple[str, ...], views: list[View]) -> Axis:
            if loop.size == 1:  # one query is no loop; one key, or a width of one, is still written as one
                return Axis(loop, "0" if index == "i" else function.fresh(index, f"{index}_at"), "1")
            return Axis(
                loop,
                function.fresh(index, f"{index}_at"),
                function.size(function.size_of(loop.size, loop.axes, views), *wishes),
            )

        names = (("batch", "b"), ("heads", "h"), ("groups", "g"))
        self.batch = [axis(loop, names[at][1], (names[at][0],), every) for at, loop in enumerate(loops)]
        self.queries = axis(Loop(kernel.queries, (count,)), "i", ("queries", "length"), [self.query])
        self.keys = axis(Loop(kernel.keys, (count + 1,)), "j", ("keys", "length_k"), [self.key, self.value])
        self.width = axis(Loop(kernel.width, (count + 2,)), "d", ("width", "head_width"), [self.query])
        self.values = axis(Loop(kernel.value_width, (count + 3,)), "e", ("value_width", "out_width"), [self.value])
        if self.values.size == self.width.size:
            self.values = replace(self.values, size=self.width.size)
        self.kind = compute_type(kernel.dtype)
        self.scale = literal(kernel.scale, self.kind)

    def element(self, view: View, dtype: str = "", **indices: str) -> str:
        axes = [*self.batch]
        for name, axis in (("query", self.queries), ("key", self.keys), ("width", self.width), ("value", self.values)):
            axes.append(replace(axis, index=indices.get(name, axis.index)))
        space = LoopSpace(self.function, axes)
        text = f"{self.function.pointer(view.buffer)}[{space.place(view)}]"
        return CppEmitter(self.function, space.place, {}).converted(text, dtype or self.kernel.dtype)

    def results(self, accumulator: str) -> list[str]:
        count = len(self.kernel.batch)
        turned = [
            *self.batch,
            replace(self.queries, loop=Loop(self.queries.length, (count,))),
            replace(self.values, loop=Loop(self.values.length, (count + 1,))),
        ]
        space = LoopSpace(self.function, turned)
        emitter = CppEmitter(
            self.function, space.place, {ACCUMULATOR: (accumulator, self.kind)}, index_names(turned, count + 2)
        )
        return stores(emitter, space, self.kernel.stores)

    def masked(self, text: str, **indices: str) -> str:
        """A score with the mask applied."""
        if self.mask is None:
            return text
        element = self.element(self.mask, self.kernel.mask_dtype, **indices)
        return f"{element} ? {text} : -INFINITY" if self.kernel.mask_dtype == "bool" else f"{text} + {element}"


def write_attention(function: FunctionWriter, kernel: Attention) -> list[str]:
    heads = _Heads(function, kernel)
    if TILES in function.passes and heads.kind == "float" and kernel.queries > 1 and kernel.keys > 1:
        return _tiled(heads)
    return _plain(heads)


def _plain(a: _Heads) -> list[str]:
    function = a.function
    names = {name: function.fresh(name, f"{name}_here") for name in ("memory", "scores", "top", "total", "dot", "seen")}
    scores, top, total, dot, seen = (names[key] for key in ("scores", "top", "total", "dot", "seen"))
    exp = "std::exp"
    if SIMD_FUNCTIONS in function.passes and a.kind == "float":
        function.prelude.use("exp_simd")
        exp = "exp_simd"
    j = a.keys.index
    zero = a.mask and a.kernel.unseeing == "zero"
    limit = f"std::min({a.queries.index} + 1, {a.keys.size})" if a.kernel.causal else a.keys.size
    loop = f"for (int64_t {j} = 0; {j} < {seen}; ++{j})"
    lines = [
        f"const int64_t {seen} = {limit};",
        f"{a.kind} {top} = -INFINITY;",
        f"{loop} {{",
        f"  {a.kind} {dot} = 0;",
        f"  #pragma omp simd reduction(+ : {dot})",
        indent(head(a.width), 1),
        f"    {dot} += {a.element(a.query)} * {a.element(a.key)};",
        f"  {scores}[{j}] = {a.masked(f'{dot} * {a.scale}')};",
        f"  {top} = {scores}[{j}] > {top} ? {scores}[{j}] : {top};",
        "}",
        *([f"{top} = std::max<{a.kind}>({top}, {LOWEST[a.kind]});"] if zero else []),
        f"{a.kind} {total} = {LEAST if zero else 0};",
        f"#pragma omp simd reduction(+ : {total})",
        f"{loop} {{",
        f"  {scores}[{j}] = {exp}({scores}[{j}] - {top});",
        f"  {total} += {scores}[{j}];",
        "}",
        head(a.values) + " {",
        f"  {a.kind} {dot} = 0;",
        f"  {loop} {dot} += {scores}[{j}] * {a.element(a.value)};",
        f"  {dot} /= {total};",
        *(indent(line, 1) for line in a.results(dot)),
        "}",
    ]
    axes = [*a.batch, *([a.queries] if a.queries.length > 1 else [])]
    inside = [
        f"std::vector<{a.kind}> {names['memory']}({a.keys.size});",
        f"{a.kind}* {scores} = {names['memory']}.data();",
        *([f"#pragma omp for{collapse(len(axes))} schedule(static)"] if axes else []),
        *nest(axes, lines),
    ]
    return region("#pragma omp parallel", inside)


def _tiled(a: _Heads) -> list[str]:
    function, kernel = a.function, a.kernel
    function.prelude.add("vector", VECTOR)
    function.prelude.add("six_rows", SIX)
    function.prelude.use("exp_simd")
    largest, total_of = sweep(function, "max", "float", False), sweep(function, "sum", "float", False)
    wishes = (
        "key_panels",
        "value_panels",
        "span",
        "packed_keys",
        "packed_values",
        "memory",
        "rows",
        "scores",
        "result",
        "sums",
        "first",
        "last",
        "seen",
        "row",
        "top",
        "lane",
        "panel",
        "u",
    )
    n = {name: function.fresh(name, f"{name}_") for name in wishes}
    i, j, d, e = (axis.index for axis in (a.queries, a.keys, a.width, a.values))
    p, lane, u = n["panel"], n["lane"], n["u"]

    def packing(name: str, panels: str, rows: Axis, size: str, element: str) -> list[str]:
        return [
            f"for (int64_t {p} = 0; {p} < {panels}; ++{p})",
            indent(head(rows), 1),
            f"    for (int64_t {lane} = 0; {lane} < WIDE; ++{lane})",
            f"      {name}[({p} * {rows.size} + {rows.index}) * WIDE + {lane}] =",
            f"          {p} * WIDE + {lane} < {size} ? {element} : 0.f;",
        ]

    spot = f"({p} * WIDE + {lane})"
    keys = packing(n["packed_keys"], n["key_panels"], a.width, a.keys.size, a.element(a.key, key=spot))
    values = packing(n["packed_values"], n["value_panels"], a.keys, a.values.size, a.element(a.value, value=spot))
    seen = f"std::min({i} + 1, {a.keys.size})" if kernel.causal else a.keys.size
    last = f"std::min({n['first']} + HIGH, {a.keys.size})" if kernel.causal else a.keys.size
    score = f"{n['row']}[{j}]"
    mask = [f"for (int64_t {j} = 0; {j} < {n['seen']}; ++{j}) {score} = {a.masked(score)};"] if a.mask else []
    peak, least = f"{largest}({n['seen']}, [=](int64_t {j}) {{ return {n['row']}[{j}]; }})", ""
    if a.mask and kernel.unseeing == "zero":
        peak, least = f"std::max({peak}, {LOWEST['float']})", f"{LEAST} + "
    clamped = f"std::min({n['first']} + {u}, {a.queries.size} - 1)"
    tile = [
        f"const int64_t {n['last']} = {last};",
        f"float {n['sums']}[HIGH];",
        f"for (int64_t {u} = 0; {u} < HIGH; ++{u})",
        indent(head(a.width), 1),
        f"    {n['rows']}[{u} * {a.width.size} + {d}] = {a.element(a.query, query=clamped)} * {a.scale};",
        f"for (int64_t {p} = 0; {p} * WIDE < {n['last']}; ++{p})",
        f"  six_rows({n['rows']}, {a.width.size}, (const vec*)({n['packed_keys']} + {p} * {a.width.size} * WIDE),",
        f"           {a.width.size}, {n['scores']} + {p} * WIDE, {n['span']});",
        f"for (int64_t {u} = 0; {u} < HIGH; ++{u}) {{",
        f"  const int64_t {i} = {clamped}, {n['seen']} = {seen};",
        f"  float* {n['row']} = {n['scores']} + {u} * {n['span']};",
        *(indent(line, 1) for line in mask),
        f"  const float {n['top']} = {peak};",
        f"  {n['sums']}[{u}] = {least}{total_of}({n['seen']}, [=](int64_t {j}) {{ return {score} = exp_simd({score} - {n['top']}); }});",
        *([f"  std::fill({n['row']} + {n['seen']}, {n['row']} + {n['last']}, 0.f);"] if kernel.causal else []),
        "}",
        f"for (int64_t {p} = 0; {p} < {n['value_panels']}; ++{p})",
        f"  six_rows({n['scores']}, {n['span']}, (const vec*)({n['packed_values']} + {p} * {a.keys.size} * WIDE),",
        f"           {n['last']}, {n['result']} + {p} * WIDE, {n['value_panels']} * WIDE);",
        f"for (int64_t {i} = {n['first']}; {i} < std::min({n['first']} + HIGH, {a.queries.size}); ++{i})",
        indent(head(a.values), 1),
        *(
            indent(line, 1)
            for line in block(
                a.results(
                    f"{n['result']}[({i} - {n['first']}) * {n['value_panels']} * WIDE + {e}] / {n['sums']}[{i} - {n['first']}]"
                )
            )
        ),
    ]
    tiles = [
        f"for (int64_t {n['first']} = 0; {n['first']} < {a.queries.size}; {n['first']} += HIGH) {{",
        *(indent(line, 1) for line in tile),
        "}",
    ]
    declared = [
        f"const int64_t {n['key_panels']} = ({a.keys.size} + WIDE - 1) / WIDE, {n['value_panels']} = ({a.values.size} + WIDE - 1) / WIDE;",
        f"const int64_t {n['span']} = {n['key_panels']} * WIDE;",
    ]
    panels = [
        f"std::vector<vec> key_memory({n['key_panels']} * {a.width.size} * 2), value_memory({n['value_panels']} * {a.keys.size} * 2);",
        f"float *{n['packed_keys']} = (float*)key_memory.data(), *{n['packed_values']} = (float*)value_memory.data();",
    ]
    own = [
        f"std::vector<float> {n['memory']}(HIGH * ({a.width.size} + {n['span']} + {n['value_panels']} * WIDE));",
        f"float *{n['rows']} = {n['memory']}.data(), *{n['scores']} = {n['rows']} + HIGH * {a.width.size};",
        f"float* {n['result']} = {n['scores']} + HIGH * {n['span']};",
    ]
    many = math.prod(axis.length for axis in a.batch) >= 8
    if many:
        threads = f"#pragma omp for{collapse(len(a.batch))} schedule(static)"
        inside = [*panels, *own, threads, *nest(a.batch, [*keys, *values, *tiles])]
        return [*declared, *region("#pragma omp parallel", inside)]
    work = "#pragma omp for schedule(static)"
    dynamic = "#pragma omp for schedule(dynamic)" if kernel.causal else work
    shared = region("#pragma omp parallel", [*own, work, *keys, work, *values, dynamic, *tiles])
    return [*declared, *panels, *nest(a.batch, shared)]
