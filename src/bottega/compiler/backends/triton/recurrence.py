"""Recurrent layers: a launch for each step, all gates of some units in one program, so that no product with the state is stored.

A step reads the state where the step before it stored its result. Programs cannot wait for each other, so that a step ends with its launch;
captured in a CUDA graph (`graph_replay`) these cost the host nothing. Both directions of a layer step in one launch: a step takes as long as
its chain of loads and products, whether a program or two walk it on a multiprocessor.
"""

from __future__ import annotations

from collections.abc import Sequence

from bottega.compiler.backends.triton.kernel_writer import FileWriter, filled
from bottega.compiler.backends.triton.matmul import precision
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import RECURRENT_CELLS, Kernel, Recurrence
from bottega.compiler.view import View

UNITS = 16
"""Of one program: a step has little work, and it should reach many multiprocessors."""
SLOTS = {"lstm": 4, "gru": 4, "rnn_tanh": 1, "rnn_relu": 1}
"""Columns of a unit in the one product of a step. A product for each gate is so narrow that every warp computes all of it. A GRU's gates are
three; its fourth column holds what came in for the last of them, which its reset gate does not touch."""
FEWEST, MOST_ROWS, DEEPEST = 16, 64, 64
PROGRAMS = 132
"""Multiprocessors of an H200. A program has as few sequences as this allows: on an H200 ROWS=16 gained 15 % with 96 programs and 6 % with 128,
lost 20 % with 192 and took twice as long with 512, where 64 rows made 128 programs."""
_SETTLED = {
    "lstm": """    held = tl.zeros((ROWS, UNITS), tl.float32)
    if not FIRST:
        held = tl.load(last_cell_ptr + places, mask=mask, other=0.0)
    elif begin_cell_ptr is not None:
        held = tl.load(begin_cell_ptr + rows * BEGIN_CELL_ROW + units, mask=mask, other=0.0)
    held = tl.sigmoid(gate1) * held + tl.sigmoid(gate0) * libdevice.tanh(gate2)
    tl.store(last_cell_ptr + places, held, mask=mask)
    state = tl.sigmoid(gate3) * libdevice.tanh(held)""",
    "gru": """    old = tl.zeros((ROWS, UNITS), tl.float32)
    if not FIRST or begin_ptr is not None:
        old = tl.load(before_ptr + units, mask=mask, other=0.0)
    new = libdevice.tanh(gate3 + tl.sigmoid(gate0) * gate2)
    state = new + tl.sigmoid(gate1) * (old - new)""",
    "rnn_tanh": "    state = libdevice.tanh(gate0)",
    "rnn_relu": "    state = tl.where(gate0 < 0, 0.0, gate0)",
}
"""By cell: the state after the step, of its gates."""


def write_recurrence(file: FileWriter, ways: Sequence[Recurrence]) -> None:
    """One direction of a layer, or both."""
    kernel, both = ways[0], len(ways) > 1
    name = f"{kernel.cell}_{'both_ways' if both else 'step'}_kernel"
    if name not in file.used:
        file.used.add(name)
        file.functions.append(_kernel(name, kernel.cell, precision(file, "float32"), both))
    if "libdevice" in _SETTLED[kernel.cell]:
        file.imports.add("from triton.language.extra import libdevice")
    out, begins = kernel.stores[0].view, _begins(kernel)
    strides = {"GATES_STEP": kernel.gates.strides[0], "GATES_ROW": kernel.gates.strides[1]}
    strides |= {"OUT_STEP": out.strides[0], "OUT_ROW": out.strides[1]}
    strides |= {f"BEGIN{word}_ROW": first.strides[0] if first else 0 for word, first in zip(("", "_CELL"), begins)}
    sizes = {"STEPS": kernel.steps, "BATCH": kernel.batch, "WIDTH": kernel.width, **strides}
    units = -(-kernel.width // UNITS)
    rows = rows_of(kernel.batch, units * len(ways))
    tile = {"ROWS": rows, "UNITS": UNITS, "DEPTH": _tile(kernel.width, DEEPEST)}
    tensors = [
        view for way in ways for view in (way.gates, way.weight, way.bias, *_begins(way), *(store.view for store in way.stores))
    ]
    given = [*(_tensor(file, view) for view in tensors), "step", "FIRST=step == 0"]
    given += [] if both else [f"BACKWARD={kernel.backward}"]
    # A program is alone on its multiprocessor: warps enough that none has more than two columns of tiles, and weights fetched ahead.
    options = {"num_warps": 8 if SLOTS[kernel.cell] > 1 and rows > FEWEST else 4, "num_stages": 4}
    given += [f"{key}={value}" for key, value in {**sizes, **tile, **options}.items()]
    grid = f"({units}, {-(-kernel.batch // rows)}{', 2' if both else ''})"
    launch = "\n".join(f"    {line}" for line in filled(", ".join(given)).splitlines())
    file.forward.append(f"for step in range({kernel.steps}):\n    {name}[{grid}](\n{launch}\n    )")


def both_ways(first: Kernel, second: Kernel | None) -> bool:
    """Whether the second kernel is the other direction of the first one's layer."""
    if not isinstance(first, Recurrence) or not isinstance(second, Recurrence):
        return False
    return second.backward and not first.backward and second.stores[0].view.buffer == first.stores[0].view.buffer


def rows_of(batch: int, programs: int) -> int:
    """Sequences of a program, where each group of them takes so many programs."""
    rows = _tile(batch, FEWEST)
    while rows < _tile(batch, MOST_ROWS) and programs * -(-batch // rows) > PROGRAMS:
        rows *= 2
    return rows


def _begins(kernel: Recurrence) -> list[View | None]:
    """The state and, of an LSTM, the cell before the first step, where they are given."""
    return [*kernel.begins, *[None] * (len(kernel.stores) - 1 - len(kernel.begins))]


def _tile(size: int, most: int) -> int:
    return min(most, max(FEWEST, 1 << (size - 1).bit_length()))


def _tensor(file: FileWriter, view: View | None) -> str:
    """A tensor that begins where the view does: what all layers' launches have in common is compiled once."""
    if view is None or not view.offset:
        return view.buffer if view else "None"
    if file.plan.buffers[view.buffer].strides:
        raise Refusal(f"{view.buffer} lies in another order than its dimensions'")
    return f"{view.buffer}.view(-1)[{view.offset}:]"


def _gates(slots: int) -> list[str]:
    """The columns of a unit, each a tile of its own."""
    if slots == 1:
        return ["gate0 = acc"]
    return [
        "even, odd = tl.split(tl.reshape(acc, (ROWS, UNITS, 2, 2)))",
        "gate0, gate2 = tl.split(even)",
        "gate1, gate3 = tl.split(odd)",
    ]


def _kernel(name: str, cell: str, precise: str, both: bool) -> str:
    """The text of one step: program (unit, row) has UNITS units of ROWS sequences; of both ways there is a third axis."""
    slots, spare = SLOTS[cell], SLOTS[cell] > RECURRENT_CELLS[cell]
    real = "(unit < WIDTH) & (gate < 3)" if spare else "(unit < WIDTH)"
    came, unless = ("tl.where(gate == 3, 2, gate)", " & (gate != 2)") if spare else ("gate", "")
    words = ("", "_cell") if cell == "lstm" else ("",)
    pointers = ["gates", "weight", "bias", *(f"begin{word}" for word in words), "out", *(f"last{word}" for word in words)]
    back = [f"back_{each}" for each in pointers] if both else []
    constants = [
        "FIRST",
        *([] if both else ["BACKWARD"]),
        "STEPS",
        "BATCH",
        "WIDTH",
        "GATES_STEP",
        "GATES_ROW",
        "OUT_STEP",
        "OUT_ROW",
    ]
    constants += [f"BEGIN{word.upper()}_ROW" for word in words]
    constants += ["ROWS", "UNITS", "DEPTH"]
    head = ", ".join(
        [*(f"{each}_ptr" for each in (*pointers, *back)), "step", *(f"{each}: tl.constexpr" for each in constants)]
    )
    turned = ["backward = tl.program_id(2) == 1", "if backward:"] if both else []
    for each in pointers if both else ():
        optional = each.startswith(("bias", "begin"))
        turned += [f"    if {each}_ptr is not None:"] if optional else []
        turned += [f"    {'    ' if optional else ''}{each}_ptr = back_{each}_ptr"]
    lines = [
        *turned,
        "units = tl.program_id(0) * UNITS + tl.arange(0, UNITS)[None, :]",
        "rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)",
        "mask = (rows < BATCH) & (units < WIDTH)",
        *(
            ["t = tl.where(backward, STEPS - 1 - step, step).to(tl.int64)", "before = tl.where(backward, t + 1, t - 1)"]
            if both
            else ["t = (STEPS - 1 - step if BACKWARD else step).to(tl.int64)", "before = t + 1 if BACKWARD else t - 1"]
        ),
        "before_ptr = out_ptr + before * OUT_STEP + rows * OUT_ROW",
        "if FIRST and begin_ptr is not None:",
        "    before_ptr = begin_ptr + rows * BEGIN_ROW",
        f"column = tl.arange(0, {slots} * UNITS)[None, :]",
        f"unit = tl.program_id(0) * UNITS + column // {slots}",
        f"gate = column % {slots}",
        f"acc = tl.zeros((ROWS, {slots} * UNITS), tl.float32)",
        "if not FIRST or begin_ptr is not None:",
        "    for start in range(0, WIDTH, DEPTH):",
        "        depth = start + tl.arange(0, DEPTH)",
        "        left = tl.load(before_ptr + depth[None, :], mask=(rows < BATCH) & (depth[None, :] < WIDTH), other=0.0)",
        "        right_ptr = weight_ptr + (gate * WIDTH + unit) * WIDTH + depth[:, None]",
        f"        right = tl.load(right_ptr, mask={real} & (depth[:, None] < WIDTH), other=0.0)",
        f"        acc = tl.dot(left, right, acc{precise})",
        "if bias_ptr is not None:",
        f"    acc += tl.load(bias_ptr + gate * WIDTH + unit, mask={real}, other=0.0)",
        "x_ptr = gates_ptr + t * GATES_STEP + rows * GATES_ROW",
        f"acc += tl.load(x_ptr + {came} * WIDTH + unit, mask=(rows < BATCH) & (unit < WIDTH){unless}, other=0.0)",
        *_gates(slots),
        "places = rows * WIDTH + units",
    ]
    ends = [
        "    tl.store(out_ptr + t * OUT_STEP + rows * OUT_ROW + units, state, mask=mask)",
        "    if step == STEPS - 1:",
        "        tl.store(last_ptr + places, state, mask=mask)",
    ]
    text = "\n".join([*(f"    {line}" for line in lines), _SETTLED[cell], *ends])
    return f'@triton.jit(do_not_specialize=["step"])\ndef {name}(\n{filled(head)},\n):\n{text}'
