"""Gluon, the lower layer of Triton: the same compiler, with layouts, shared memory and synchronisation in the writer's hands.

It shares Triton's compiler, which is made ready and watched there already. It has no interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bottega.languages.kernel_text import decorated, pairs
from bottega.languages.language import Language

_MODULE = "triton.experimental.gluon"
_MARKS = frozenset((("@", "gluon.jit"), ("import", "gluon"), ("import", _MODULE), ("from", _MODULE)))
_WORDS = re.compile(r"gluon|\bgl\.", re.IGNORECASE)

RULES = r"""
Gluon, the lower layer of Triton: `@gluon.jit` kernels in the file, launched like Triton's from forward on the current stream. Import `from triton.experimental import gluon` and `from triton.experimental.gluon import language as gl`.

- Every tensor has a layout, a `gl.constexpr`: `gl.BlockedLayout(size_per_thread, threads_per_warp, warps_per_cta, order)`, with one number for each dimension. The products over the three lists should make up the block; threads_per_warp multiplies to 32, and warps_per_cta to the launch's `num_warps`. A larger block wraps around.
- `gl.arange(start, end, layout=layout)` takes the layout. A row of a two-dimensional layout has `gl.SliceLayout(0, layout)`, a column `gl.SliceLayout(1, layout)`; `gl.expand_dims`, `x[:, None]` and `gl.sum(x, axis)` go between them. `gl.convert_layout` moves a tensor from one layout to another, through shared memory.
- Several neighbouring elements of a thread (size_per_thread 4 for float32) make wide loads. Mask every load and store whose block may reach past the end; block sizes are powers of two.
- `gl.allocate_shared_memory(dtype, shape, layout)` with `gl.SwizzledSharedLayout` gives shared memory; `triton.experimental.gluon.language.nvidia` has asynchronous copies, barriers and the tensor cores (`ampere`, `hopper`, `blackwell`).
- Offsets beyond 2^31 elements need `gl.int64`.
- Give kernels names of their own: the share of the work that they do is measured by name.
""".strip()  # noqa: E501

EXAMPLE = r"""
import torch
import triton
from torch import nn
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def relu_gain(x, gain, y, columns, BLOCK: gl.constexpr, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [num_warps], [0])
    here = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    inside = here < columns
    offsets = gl.program_id(0).to(gl.int64) * columns + here
    v = gl.load(x + offsets, mask=inside, other=0.0)
    g = gl.load(gain + here, mask=inside, other=0.0)
    gl.store(y + offsets, gl.where(v < 0.0, 0.0, v) * g, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        relu_gain[(rows, triton.cdiv(columns, 1024))](x, self.gain, y, columns, BLOCK=1024, num_warps=4)
        return y
""".lstrip()


class Gluon(Language):
    name = "gluon"
    title = "Gluon"
    precedence = 40
    index_bit = 64
    devices = ("cuda",)
    decorators = ("gluon.jit", "jit", "triton.jit")
    needs = "triton"
    card_prefix = "gluon_"
    modules = (f"{_MODULE}.language",)
    summary = "Gluon is Triton with layouts: every gl.arange takes one, and a launch gives num_warps."
    rules = RULES
    example = EXAMPLE

    def recognises(self, source: str) -> bool:
        return self.name in source and any(pair in _MARKS for pair in pairs(source))

    def recognises_snippet(self, text: str) -> bool:
        return _WORDS.search(text) is not None

    def kernel_names(self, source: str) -> Iterator[str]:
        return decorated(source, self.decorators)

    def hints(self, problem: str, source: str) -> Iterator[str]:
        if "tail" in problem and "mask" not in source:
            yield "No mask is used in the Gluon loads and stores."
