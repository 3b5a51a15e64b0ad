"""Attention: a block of queries stays, keys and values stream by, the softmax runs along; no score is ever stored."""

from __future__ import annotations

import math
from dataclasses import replace

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter, KernelWriter
from bottega.compiler.backends.triton.matmul import precision
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names, times
from bottega.compiler.backends.triton.width import WIDEST_GRID
from bottega.compiler.build_step import Refusal
from bottega.compiler.choices import SHARED_BYTES
from bottega.compiler.expression import views
from bottega.compiler.kernel import ACCUMULATOR, Attention, StoreOp
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import Buffer, View, contiguous_strides

BATCH, QUERY, KEY, WIDTH, VALUE = range(5)
LOG2E = 1.4426950408889634
MANY_QUERIES = 512


def write_attention(file: FileWriter, kernel: Attention) -> None:
    if kernel.dtype not in ("float32", "float16", "bfloat16") or max(kernel.width, kernel.value_width) > 256:
        raise Refusal("attention of this type or width is not written in Triton")
    if min(kernel.width, kernel.value_width) < 2 or any(list(_names(item)) for item in kernel.stores):
        raise Refusal("attention with such an epilogue is not written in Triton")
    if math.prod(kernel.batch) > WIDEST_GRID:
        raise Refusal("more heads than a grid has programs along its later axes")
    kernel = _values_turned(file, kernel)
    writer, base = file.kernel_writer(kernel.origin), len(kernel.batch)
    shape = (*kernel.batch, kernel.queries, kernel.keys, kernel.width, kernel.value_width)

    def spread(view: View, axes: tuple[int, int]) -> View:
        strides = [*view.strides[:base], 0, 0, 0, 0]
        for axis, stride in zip(axes, view.strides[base:]):
            strides[base + axis - 1] = stride
        return View(view.buffer, shape, tuple(strides), view.offset)

    query, key = spread(kernel.query, (QUERY, WIDTH)), spread(kernel.key, (KEY, WIDTH))
    value = spread(kernel.value, (KEY, VALUE))
    hidden = spread(kernel.mask, (QUERY, KEY)) if kernel.mask is not None else None
    stores = [StoreOp(spread(item.view, (QUERY, VALUE)), item.body, item.dtype) for item in kernel.stores]
    operands = [query, key, value, *([hidden] if hidden else []), *(item.view for item in stores)]
    writer.reserve([view.buffer for view in operands])
    writer.taken |= {"scores", "new", "p", "fix", "kt", "m"}
    loops = merge(kernel.batch, [View(v.buffer, kernel.batch, v.strides[:base]) for v in operands]) if base else []
    head = writer.fresh("head")
    indices, sizes = numbered_names(writer, max(len(loops), 1), head, "heads")
    row, col = writer.fresh("row"), writer.fresh("col")
    k, d = writer.fresh("key"), writer.fresh("d")
    words = ("queries", "keys")
    groups = [
        AxisGroup(head, loops or [Loop(1, ())], indices, sizes, "heads"),
        AxisGroup(row, [Loop(kernel.queries, (base,))], [row], [words[0]], words[0]),
        AxisGroup(k, [Loop(kernel.keys, (base + 1,))], [k], [words[1]], words[1]),
        AxisGroup(d, [Loop(kernel.width, (base + 2,))], [d], ["D"], "D", constant=True),
        AxisGroup(
            col,
            [Loop(kernel.value_width, (base + 3,))],
            [col],
            ["DV"],
            "D" if kernel.width == kernel.value_width else "DV",
            constant=True,
        ),
    ]
    space = IndexSpace(writer, shape, operands, groups)
    space.touch(operands, [])
    queries, keys = space.size(QUERY, 0), space.size(KEY, 0)
    width, own = space.size(WIDTH, 0), space.size(VALUE, 0)
    bq, bk = (writer.constexpr(name, "64" if name.endswith("Q") else "32") for name in ("BQ", "BK"))
    tall, deep, warps, stages = tile_of(file, kernel)
    writer.parameters[f"constexpr {bq}"].text, writer.parameters[f"constexpr {bk}"].text = str(tall), str(deep)
    pieces = pieces_of(file, kernel)
    padded = {size: size if len(pieces) > 1 or (value == 1 << (value - 1).bit_length() and value >= 16) else None
              for size, value in ((width, kernel.width), (own, kernel.value_width))}  # fmt: skip
    blocks = {}
    for size, number in ((width, kernel.width), (own, kernel.value_width)):
        whole = size if padded[size] else writer.constexpr(f"BLOCK_{size}", str(block_of(number)))
        blocks[size] = [whole] if len(pieces) == 1 else [str(piece) for piece in pieces]
    line, exact = writer.line, precision(file, kernel.dtype)
    writer.indexes(operands)
    line(f"{row} = (tl.program_id(0) * {bq} + tl.arange(0, {bq}))[:, None]")
    if base:
        line(f"{head} = tl.program_id(1)")
    ds, cols = _lanes(writer, d, blocks[width], ""), _lanes(writer, col, blocks[own], "[None, :]")
    space.define(BATCH)

    def address(view: View, places: dict[int, str]) -> str:
        parts = [writer.pointer(view.buffer), space.offset(view, skip=frozenset((QUERY, KEY, WIDTH, VALUE)))]
        for group, text in places.items():
            stride = view.strides[base + group - 1]
            parts.append(times(text, space.stride(view, group, 0, stride)) if stride else f"{text} * 0")
        return " + ".join(part for part in parts if part)

    def masked(*conditions: str) -> str:
        found = [c for c in conditions if c]
        return f", mask={' & '.join(f'({c})' for c in found) if len(found) > 1 else found[0]}, other=0.0" if found else ""

    narrow_k = "" if padded[width] else f"{d}[:, None] < {width}"
    narrow_d = "" if padded[width] else f"{d}[None, :] < {width}"
    narrow_v = "" if padded[own] else f"{col} < {own}"
    peak, total, start = (writer.fresh(word) for word in ("peak", "norm", "start"))
    qs, accs = ([writer.fresh(f"{word}{number}") for number in _numbers(pieces)] for word in ("q_tile", "acc"))
    for q, lanes in zip(qs, ds):
        place = address(query, {QUERY: row, WIDTH: f"{lanes}[None, :]"})
        line(f"{q} = tl.load({place}{masked(f'{row} < {queries}', narrow_d)})")
    line(f'{peak} = tl.full(({bq}, 1), -float("inf"), tl.float32)')
    line(f"{total} = tl.zeros(({bq}, 1), tl.float32)")
    for acc, block in zip(accs, blocks[own]):
        line(f"{acc} = tl.zeros(({bq}, {block}), tl.float32)")
    scale = _scale(writer, space, kernel, width)
    last = keys
    if kernel.causal and file.on("causal_blocks"):
        last = writer.fresh("last")
        line(f"{last} = tl.minimum({keys}, (tl.program_id(0) + 1) * {bq})")
    with writer.block(f"for {start} in range(0, {last}, {bk}):"):
        line(f"{k} = {start} + tl.arange(0, {bk})")
        even = file.on("even_tiles") and kernel.keys % deep == 0
        across, down = ("", "") if even else (f"{k}[None, :] < {keys}", f"{k}[:, None] < {keys}")
        for number, (q, lanes) in enumerate(zip(qs, ds)):
            line(f"kt = tl.load({address(key, {KEY: f'{k}[None, :]', WIDTH: f'{lanes}[:, None]'})}{masked(across, narrow_k)})")
            line(f"scores = tl.dot({q}, kt{', scores' if number else ''}{exact})")
        line(f"scores *= {scale} * {LOG2E}")
        seen = ([] if even else [f"({k}[None, :] < {keys})"]) + ([f"({k}[None, :] <= {row})"] if kernel.causal else [])
        if hidden is not None:
            place = address(hidden, {QUERY: row, KEY: f"{k}[None, :]"})
            line(f"m = tl.load({place}{masked(f'{row} < {queries}', f'{k}[None, :] < {keys}').replace('0.0', '0')})")
            if kernel.mask_dtype == "bool":
                seen.append("m")
            else:
                line("m = m.to(tl.float32)")
                line(f"scores += tl.where(m < -1e38, 0.5 * m, m) * {LOG2E}")  # the lowest number times that is infinite
        if seen:
            line(f'scores = tl.where({" & ".join(seen)}, scores, -float("inf"))')
        line(f"new = tl.maximum({peak}, tl.max(scores, axis=1, keep_dims=True))")
        level = "new"
        if hidden is not None:
            level = "level"
            line('level = tl.where(new == -float("inf"), 0.0, new)')
        line(f"p = tl.exp2(scores - {level})")
        line(f"fix = tl.exp2({peak} - {level})")
        line(f"{total} = {total} * fix + tl.sum(p, axis=1, keep_dims=True)")
        values = writer.fresh("values")
        for acc, lanes in zip(accs, cols):
            line(f"{values} = tl.load({address(value, {KEY: f'{k}[:, None]', VALUE: lanes})}{masked(down, narrow_v)})")
            line(f"{acc} = tl.dot(p.to({values}.dtype), {values}, {acc} * fix{exact})")
        line(f"{peak} = new")
    for acc in accs:
        zero = hidden is not None and kernel.unseeing == "zero"
        line(f"{acc} = {acc} / tl.where({total} == 0, 1.0, {total})" if zero else f"{acc} = {acc} / {total}")
    limit = " & ".join(f"({c})" for c in (f"{row} < {queries}", narrow_v) if c)
    for acc, lanes in zip(accs, cols):
        emitter = TritonEmitter(writer, reader(space, lambda along: limit, lambda node: ""), space.index_of)
        emitter.names[ACCUMULATOR] = acc
        lone = kernel.queries == 1 or len(pieces) > 1  # a space drops such loops, and knows of no pieces
        at = (lambda view, lanes=lanes: address(view, {QUERY: row, VALUE: lanes})) if lone else None
        store(space, emitter, stores, lambda along: limit[1:-1] if not narrow_v else limit, at)
    batch = f", {space.total_text(BATCH)}" if base else ", 1"
    options = ([f"num_warps={warps}"] if warps != 4 else []) + ([f"num_stages={stages}"] if stages != 3 else [])
    writer.finish(f"(triton.cdiv({writer.size_text(queries)}, {tall}){batch})", ", ".join(options))


def pieces_of(file: FileWriter, kernel: Attention) -> tuple[int, ...]:
    """The blocks of a head's width: one, or two powers of two that fill it, where one would be a quarter empty.

    On an H200 heads of 96 took 5.8 ms as 64 and 32, with values turned, where torch took 6.9.
    """
    width, low = kernel.width, kernel.width & -kernel.width
    split = kernel.dtype == "float32" and file.on("tf32x3") and file.on("tuned_tiles") and width == kernel.value_width
    if split and low >= 16 and width != low and (width - low) & (width - low - 1) == 0:
        return width - low, low
    return (block_of(width),)


def _values_turned(file: FileWriter, kernel: Attention) -> Attention:
    """With values copied so that they lie along the keys, as three TF32 products want it, where many queries read them."""
    view = kernel.value
    if (
        len(pieces_of(file, kernel)) == 1
        or not file.on("depth_major")
        or kernel.queries < MANY_QUERIES
        or view.strides[-2] == 1
    ):
        return kernel
    if not view.text or file.plan.buffers[view.buffer].size != math.prod(view.shape):
        return kernel
    name, shape = file.variable("turned"), (*kernel.batch, kernel.value_width, kernel.keys)
    file.plan.buffers[name] = Buffer(name, shape, kernel.dtype, "result")
    file.forward.append(f"{name} = {view.text}.transpose(-1, -2).contiguous()")
    file.known.append(name)
    *batch, width, key = contiguous_strides(shape)
    return replace(kernel, value=View(name, view.shape, (*batch, key, width)))


def _numbers(pieces: tuple[int, ...]) -> list[str]:
    return [""] if len(pieces) == 1 else [str(number) for number in range(len(pieces))]


def _lanes(writer: KernelWriter, name: str, blocks: list[str], across: str) -> list[str]:
    """The lanes of each piece, under names of their own where there are several."""
    names, first = [name], ""
    if len(blocks) > 1:
        names = [writer.fresh(f"{name}{number}") for number in range(len(blocks))]
    for lanes, block in zip(names, blocks):
        lane = f"tl.arange(0, {block})"
        writer.line(f"{lanes} = {(f'({first} + {lane})' if across else f'{first} + {lane}') if first else lane}{across}")
        first = block
    return names


def tile_of(file: FileWriter, kernel: Attention) -> tuple[int, int, int, int]:
    """Queries and keys of a block, warps and stages: fewer stages and then fewer keys where a wide head would not fit."""
    tall, deep, warps, stages = wanted_tile(file, kernel)
    while stages > 2 and shared_bytes(file, kernel, (tall, deep, warps, stages)) > SHARED_BYTES:
        stages -= 1
    while deep > 16 and shared_bytes(file, kernel, (tall, deep, warps, stages)) > SHARED_BYTES:
        deep //= 2
    return tall, deep, warps, stages


def wanted_tile(file: FileWriter, kernel: Attention) -> tuple[int, int, int, int]:
    if not file.on("tuned_tiles"):
        return 64, 32, 4, 3
    if kernel.dtype != "float32":
        return (128, 64, 8, 3) if kernel.queries >= 1024 and kernel.width <= 128 else (64, 64, 4, 3)
    if kernel.width > 64:
        return 64, 32, 4, 2
    return (64, 64, 4, 2) if kernel.causal or kernel.queries < 1024 else (128, 32, 4, 2)


def shared_bytes(file: FileWriter, kernel: Attention, tile: tuple[int, int, int, int]) -> int:
    """What the compiler lays into shared memory: the queries, twice where three TF32 products split them, and keys, values and the
    mask once for each stage. Without tensor cores one stage is in registers, and the scores pass through shared memory instead."""
    tall, deep, _, stages = tile
    size = 4 if kernel.dtype == "float32" else 2
    pieces = pieces_of(file, kernel)
    width, own = (sum(pieces) if len(pieces) > 1 else block_of(size) for size in (kernel.width, kernel.value_width))
    mask = 0 if kernel.mask is None else tall * deep * {"bool": 1, "float32": 4}.get(kernel.mask_dtype, 2)
    step = deep * (width + own) * size + mask
    if kernel.dtype == "float32" and not file.on("tf32x3"):
        return tall * width * size + (stages - 1) * step + tall * (deep + 1) * size
    twice = pieces[0] if kernel.dtype == "float32" else 0  # the larger piece
    return tall * (width + twice) * size + stages * step


def block_of(width: int) -> int:
    """The power of two that holds it, of which a product needs at least 16."""
    return max(16, 1 << (width - 1).bit_length())


def _names(item: StoreOp) -> list[View]:
    return views(item.body)


def _scale(writer, space, kernel: Attention, width: str) -> str:  # type: ignore[no-untyped-def]
    """The scale as an argument that a reader knows, where it is the usual one."""
    if math.isclose(kernel.scale, kernel.width**-0.5, rel_tol=1e-12):
        text = next(p.text for p in writer.parameters.values() if p.name == width)
        return str(
            writer.parameter("scalar scale", "scale", f"{text} ** -0.5" if "*" not in text else repr(kernel.scale), "scalar")
        )
    return repr(kernel.scale)
