"""The runner for GPUs: a paged cache, Triton kernels, CUDA graphs, and a host that reads results one window late.

A few steps are replayed between two looks of the host. The device itself draws, counts and stops rows, so it needs no host to
go on; the host learns a window late what was sampled, and fills the rows that came free.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch

from bottega.backbone.batch import DecodeBatch
from bottega.backbone.decoder import PagedDecoder
from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.loading import free_memory, release_unused
from bottega.backbone.pack import SIZES, PrefillSpan, packs
from bottega.backbone.pages import PAGE, HeldPages, Pages
from bottega.backbone.runner import BatchRunner, Sampled
from bottega.backbone.weights import Weights
from bottega.core.errors import BackboneError

STEPS = 8
"""Draws between two looks."""
SMALL = 32
"""A cache below this part of the device's memory is not handed back: recording the graphs anew takes longer than that is worth."""
BUCKETS = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024)
"""Batch sizes that have a graph of their own."""


class PagedRunner(BatchRunner):
    kind = "paged kernels"
    lag = 1

    def __init__(
        self, weights: Weights, slots: int, capacity: int, context: int, ends: Sequence[int], graphs: bool = True
    ) -> None:
        self.weights = weights
        self.slots = slots
        self._device = weights.device
        self.capacity = capacity // PAGE * PAGE
        self._pages = Pages(0)
        """Of the cache as it is now: it grows with what is asked for, up to the capacity, and can be handed back."""
        self._most = self.capacity // PAGE
        """Pages that there may be; fewer after the memory was found to be short, until the cache is handed back."""
        self.claimed: Callable[[int], bool] = lambda cache_bytes: True
        """Asked whether the cache may be so large before it grows; told its size after it was handed back."""
        self._batch = DecodeBatch(slots, context, STEPS + 1, ends, self._device)
        self._decoder = PagedDecoder(weights, self._batch, graphs)
        self._small = torch.cuda.mem_get_info(self._device)[1] // SMALL if self._device.type == "cuda" else 0
        self._generations: list[ActiveGeneration | None] = [None] * slots
        self._held: dict[ActiveGeneration, tuple[int, HeldPages]] = {}
        self._left: list[int] = []
        """Rows whose generations have gone, of which the device does not know yet."""
        self._entries = 0
        """Of the ring, used since the last window."""

    @property
    def cache_bytes(self) -> int:
        cache = self._decoder.cache
        return cache.numel() * cache.element_size()

    @property
    def buffer_bytes(self) -> int:
        return self.weights.own_bytes

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        with torch.inference_mode():
            if self._device.type != "cuda":
                yield
                return
            torch.cuda.synchronize(self._device)
            with torch.cuda.device(self._device), torch.cuda.stream(torch.cuda.Stream(self._device)):
                yield

    def reserve(self, lengths: Sequence[int]) -> None:
        wanted = min(sum(-(-length // PAGE) for length in lengths), self._most)
        if wanted <= self._pages.count:
            return
        # at least twice as many: generations that come one by one are not to have the graphs recorded each time
        wanted = min(max(wanted, 2 * self._pages.count), self._most)
        try:
            self._resize(wanted)
        except torch.OutOfMemoryError:
            self._resize(min(wanted, self._affordable()))
        if self._pages.count < wanted:
            self._most = self._pages.count
            self.claimed(self.cache_bytes)

    def hand_back(self) -> None:
        self._most = self.capacity // PAGE
        if self.cache_bytes <= self._small:
            return
        self._pages = Pages(0)
        self._decoder.resize(0)
        release_unused(self._device)
        self.claimed(0)

    def _resize(self, count: int) -> None:
        """So many pages, or fewer where others have claimed the memory."""
        before = self._pages.count
        while count > before:
            if self.claimed(count * self._page_bytes):
                self._decoder.resize(count)
                self._pages.grow(count)
                return
            count = before + (count - before) // 2

    @property
    def _page_bytes(self) -> int:
        return self.weights.shape.cache_bytes(self.weights.dtype) * PAGE

    def _affordable(self) -> int:
        """As many pages as there is memory for beside those that there are, with some left."""
        release_unused(self._device)
        return (free_memory(str(self._device)) or 0) // 2 // self._page_bytes

    def take(self, generation: ActiveGeneration) -> bool:
        if len(self._held) == self.slots:
            return False
        held = self._pages.take(generation.prompt, generation.length)
        if held is None and not self._held:
            raise BackboneError(
                f"not enough memory to generate: an answer of up to {generation.length} tokens needs "
                f"{generation.length * self._page_bytes / PAGE / 2**30:.1f} GiB of cache; free some memory of {self._device}"
            )
        if held is None:
            return False
        row = self._generations.index(None)
        self._generations[row] = generation
        self._held[generation] = (row, held)
        return True

    def drop(self, generation: ActiveGeneration) -> None:
        row, held = self._held.pop(generation)
        self._generations[row] = None
        self._left.append(row)
        self._pages.give(held)

    def refresh(self) -> None:
        self._pages.forget()
        if self.weights.refresh():
            self._decoder.forget_graphs()
        if self._device.type == "cuda":
            torch.cuda.current_stream().synchronize()

    def reset(self) -> None:
        for generation in list(self._held):
            _, held = self._held.pop(generation)
            self._pages.give(held)
        self._pages.forget()
        self._most = self.capacity // PAGE
        self._generations = [None] * self.slots
        self._left = []
        self._entries = 0
        self._batch.whole.zero_()
        self._batch.cursor.zero_()

    def warm_up(self) -> None:
        self.reserve([self.capacity])  # graphs hold for the pages that there are
        self._decoder.warm_up(sorted({self._bucket(size) for size in BUCKETS}), SIZES)

    def prefill(self, generations: Sequence[ActiveGeneration]) -> None:
        self._put_to_sleep()
        places = [self._held[generation] for generation in generations]
        self._batch.put([row for row, _ in places], generations, [held for _, held in places])
        self._batch.ring_tokens[self._entries].fill_(-1)
        pieces = [
            PrefillSpan(row, generation.prompt, held.shared, len(generation.prompt))
            for generation, (row, held) in zip(generations, places)
        ]
        for pack in packs(pieces, self._batch.asleep):
            self._decoder.read(pack)
        self._batch.cursor += 1
        self._entries += 1

    def launch(self) -> PagedWindow:
        self._put_to_sleep()
        if not self._entries:
            self._move_up()
        used = max(row for row, generation in enumerate(self._generations) if generation is not None) + 1
        step = self._decoder.step(self._bucket(used))
        for _ in range(STEPS):
            step()
        window = PagedWindow(self._batch, self._generations[:used], self._entries + STEPS)
        self._batch.cursor.zero_()
        self._entries = 0
        return window

    def _put_to_sleep(self) -> None:
        if self._left:
            self._batch.stop(self._left)
            self._left = []

    def _bucket(self, used: int) -> int:
        return min(next((size for size in BUCKETS if size >= used), self.slots), self.slots)

    def _move_up(self) -> None:
        """Bring the last rows forward when that makes the batch smaller."""
        used = [row for row, generation in enumerate(self._generations) if generation is not None]
        target = self._bucket(len(used))
        if target >= self._bucket(used[-1] + 1):
            return
        sources = [row for row in used if row >= target]
        targets = [row for row in range(target) if self._generations[row] is None][: len(sources)]
        self._batch.move(sources, targets)
        for source, goal in zip(sources, targets):
            generation = self._generations[source]
            assert generation is not None
            self._generations[source], self._generations[goal] = None, generation
            self._held[generation] = (goal, self._held[generation][1])


class PagedWindow:
    """A copy of the ring on its way to the host, and who sat where when it was filled."""

    draws = STEPS

    def __init__(self, batch: DecodeBatch, generations: list[ActiveGeneration | None], entries: int) -> None:
        self._generations = generations
        self._event = None
        both = (batch.ring_tokens[:entries], batch.ring_logprobs[:entries])
        if batch.device.type != "cuda":
            self._tokens, self._logprobs = (part.clone() for part in both)
            return
        self._tokens, self._logprobs = (
            torch.empty(part.shape, dtype=part.dtype, pin_memory=True).copy_(part, non_blocking=True) for part in both
        )
        self._event = torch.cuda.Event(blocking=True)
        self._event.record()

    def collect(self) -> list[Sampled]:
        if self._event is not None:
            self._event.synchronize()
        width = len(self._generations)
        tokens, logprobs = self._tokens.numpy().T[:width], self._logprobs.numpy().T[:width]
        drew = tokens >= 0
        ids, values = tokens[drew].tolist(), logprobs[drew].tolist()  # row after row
        found, at = [], 0
        for generation, count in zip(self._generations, drew.sum(1).tolist()):
            if generation is not None and count:
                found.append(Sampled(generation, ids[at : at + count], values[at : at + count]))
            at += count
        return found
