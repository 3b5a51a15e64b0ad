"""The decoder over a paged cache: one decode step, or one prefill pass over a pack of prompts, each recorded once as a CUDA graph.

Matrix products are the library's, everything between them is ours. Nothing here waits for the host or asks it anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.backbone.batch import ACTIVE, DecodeBatch
from bottega.backbone.pack import TILE, PrefillPack, length_of, parts
from bottega.backbone.pages import PAGE
from bottega.backbone.weights import Weights

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries, keys and values of a layer's pages) to what the output projection reads."""


class PagedDecoder:
    def __init__(self, weights: Weights, batch: DecodeBatch, graphs: bool) -> None:
        from bottega.backbone.kernels import attention, rows, sampling

        self._decode_attention, self._prompt_attention = attention.decode_attention, attention.prompt_attention
        self._draw, self._norm, self._rotate, self._swiglu = sampling.sample_tokens, rows.rms_norm, rows.rotate, rows.swiglu
        self.weights = weights
        self._batch = batch
        self.cache = self._pages(0)
        self._graphed = graphs
        self._steps: dict[int, torch.cuda.CUDAGraph] = {}
        self._reads: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._pool: Any = None
        self._processors = torch.cuda.get_device_properties(weights.device).multi_processor_count if graphs else 4

    def resize(self, pages: int) -> None:
        """So many pages; what the first ones hold stays. Graphs are recorded anew: the pages lie elsewhere than before."""
        if self.cache.is_cuda:
            torch.cuda.current_stream().synchronize()  # a graph that is still replayed reads them
        kept = min(pages, self.cache.shape[2])
        if not kept:
            self.cache = self._pages(0)  # before there are new ones: both might not fit
        fresh = self._pages(pages)
        fresh[:, :, :kept] = self.cache[:, :, :kept]
        self.cache = fresh
        self.forget_graphs()

    def _pages(self, count: int) -> Tensor:
        shape = self.weights.shape
        size = (shape.layers, 2, count, shape.kv_heads, PAGE, shape.head)
        return torch.zeros(size, dtype=self.weights.dtype, device=self.weights.device)

    def forget_graphs(self) -> None:
        """Weights or pages lie elsewhere than when they were recorded."""
        self._steps.clear()
        self._reads.clear()
        self._pool = None

    def step(self, rows: int) -> Callable[[], None]:
        """What moves the first rows on by one draw each."""
        if not self._graphed:
            return lambda: self._step(rows)
        if rows not in self._steps:
            self._steps[rows] = self._recorded(lambda: self._step(rows))
        return self._steps[rows].replay

    def read(self, pack: PrefillPack) -> None:
        """Read a pack of prompts, and draw for those that end in it."""
        flat = self._batch.upload(pack.flat)
        if not self._graphed:
            self._read(flat, pack.size)
            return
        graph, fixed = self._reads.get(pack.size) or self._prepare(pack.size)
        fixed.copy_(flat)
        graph.replay()

    def warm_up(self, batches: Sequence[int], sizes: Sequence[int]) -> None:
        """Compile and record for all these sizes now. Else it is done when a size is first met, and takes the time then."""
        if self._graphed:
            for rows in batches:
                self.step(rows)
            for size in sizes:
                if size not in self._reads:
                    self._prepare(size)

    def _prepare(self, size: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """The graph for packs of a size, and the memory from which it reads them."""
        fixed = torch.zeros(length_of(size), dtype=torch.int32, device=self.cache.device)
        for part, line in zip(parts(fixed, size), (2, 1, 1)):
            part[line].fill_(self._batch.asleep)
        self._reads[size] = self._recorded(lambda: self._read(fixed, size)), fixed
        return self._reads[size]

    def _recorded(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """A graph of some work, which is done once before, with every row asleep, so that all kernels are compiled."""
        batch = self._batch
        kept = [(state, state.clone()) for state in (batch.whole, batch.cursor, batch.ring_tokens)]
        batch.whole[ACTIVE].zero_()
        work()
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        torch.cuda.current_stream().synchronize()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")  # a trainer's thread may go on meanwhile
        try:  # not by torch.cuda.graph, which collects garbage and empties the allocator first, for each size anew
            work()
        finally:
            graph.capture_end()
        for state, value in kept:
            state.copy_(value)
        return graph

    def _step(self, rows: int) -> None:
        state, shape = self._batch.drawing(rows), self.weights.shape
        splits = 1
        while splits < 16 and rows * shape.kv_heads * splits < 3 * self._processors:
            splits *= 2
        table = self._batch.table[:rows]

        def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            return self._decode_attention(
                queries, keys, values, table, state["positions"], state["active"], shape.scale, splits
            )

        hidden = self._forward(state["tokens"], state["positions"], None, attend)
        self._draw(self._logits(hidden), None, **state)
        self._batch.cursor += 1

    def _read(self, flat: Tensor, size: int) -> None:
        (ids, positions, rows), tiles, (lasts, sampling) = parts(flat, size)

        def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            return self._prompt_attention(queries, keys, values, self._batch.table, tiles, self.weights.shape.scale, TILE)

        hidden = self._forward(ids, positions, rows, attend)
        self._draw(self._logits(hidden.index_select(0, lasts)), sampling, **self._batch.drawing(None))

    def _forward(self, ids: Tensor, positions: Tensor, rows: Tensor | None, attend: Attend) -> Tensor:
        """The last layer's output after the final norm. Keys and values go to the pages of the rows."""
        weights, shape, norm = self.weights, self.weights.shape, self._norm
        residual = F.embedding(ids, weights.embedding)
        normed = norm(residual, weights.layers[0].before, shape.epsilon)
        for number, layer in enumerate(weights.layers):
            keys, values = self.cache[number]
            norms = None if layer.query_norm is None or layer.key_norm is None else (layer.query_norm, layer.key_norm)
            queries = self._rotate(
                F.linear(normed, layer.qkv, layer.qkv_bias), keys, values, rows, positions, self._batch.whole[ACTIVE],
                self._batch.table, weights.cosine, weights.sine, norms, shape.epsilon, shape.heads,
            )  # fmt: skip
            mixed = F.linear(attend(queries, keys, values), layer.out, layer.out_bias)
            normed = norm(mixed, layer.between, shape.epsilon, residual)
            fed = self._swiglu(F.linear(normed, layer.gate_up, layer.gate_up_bias))
            after = weights.layers[number + 1].before if number + 1 < shape.layers else weights.norm
            normed = norm(F.linear(fed, layer.down, layer.down_bias), after, shape.epsilon, residual)
        return normed

    def _logits(self, hidden: Tensor) -> Tensor:
        """In fp32 without a rounding in between: bf16 would blur log-probs by several percent."""
        if hidden.dtype != torch.float32 and hidden.is_cuda:
            return torch.mm(hidden, self.weights.head.t(), out_dtype=torch.float32)
        return F.linear(hidden, self.weights.head).float()
