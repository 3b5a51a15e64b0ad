"""A task that is up in a worker: the reference, its baselines, and a few draws of inputs with the reference's answers and the truth.

The draws serve all kernels of the task, because the oracle costs more than everything else about a right kernel. A wrong kernel
may have written where it must not, so after one of those they are summed up again, and made anew when they have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from bottega.core.task import Task
from bottega.data.trusted.apart import Apart
from bottega.data.trusted.side import Crowded, OwnSide
from bottega.judge.baselines import COMPILE_MODES
from bottega.judge.compare import root_mean_square
from bottega.judge.device import DeviceCare
from bottega.judge.inputs import Drawn, flat_bytes
from bottega.judge.invalid import InvalidTask, out_of_memory
from bottega.judge.layout import TensorSpec, is_dense
from bottega.judge.loading import autocast, set_precision
from bottega.judge.oracle import Oracle, Piece
from bottega.judge.reference import Reference
from bottega.judge.runner import SideFailed, Turn
from bottega.judge.settings import Settings
from bottega.judge.task_profile import SMALL_OUTPUT, TIMED_CALLS, Acquaintance, must_repeat, must_vary
from bottega.judge.terms import Terms, nothing

DRAWS = ("plain", "spiked", "plain")
"""The judge's quick variants, and a fresh draw of the first: a kernel that keeps something of an earlier call shows."""
KEPT_BYTES = 1 << 30
"""Truth of one draw that is kept; where it takes more it is found again for every kernel."""


@dataclass
class Kept:
    """One draw. It stands in for the oracle and for the eager side of the judge's `run_trial`."""

    oracle: Oracle
    state: str
    drawn: Drawn
    turn: Turn | None = None
    failure: SideFailed | None = None
    outputs: list[torch.Tensor] = field(default_factory=list)
    after: list[torch.Tensor] = field(default_factory=list)
    """The inputs as the reference leaves them."""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.oracle.kind

    def draw(self, variant: str = "plain") -> Drawn:
        return self.drawn

    def play(self, drawn: Drawn, terms: Terms) -> Turn:
        if self.failure is not None or self.turn is None:
            raise self.failure or SideFailed("died")
        return self.turn

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]:
        return self.outputs

    def input_views(self, turn: Turn) -> list[torch.Tensor]:
        return self.after

    def truth(self, drawn: Drawn, state: str, outputs: list[torch.Tensor]) -> Iterator[Piece]:
        yield from self.pieces or self.oracle.truth(self.drawn, self.state, self.outputs)

    def tensors(self) -> Iterable[torch.Tensor]:
        truths = (tensor for piece in self.pieces for tensor in piece.outputs)
        return (*self.drawn.tensors, *self.outputs, *self.after, *truths)


class TaskRoom:
    """Raises `InvalidTask` for what cannot be judged, and `Crowded` where the memory is full."""

    def __init__(self, task: Task, settings: Settings, device: str, care: DeviceCare, lease: Apart) -> None:
        self.task, self.settings, self.device, self.care, self.lease = task, settings, device, care, lease
        self.reference = Reference(task.source, device, settings.training)
        self.oracle = Oracle(self.reference)
        self.known = Acquaintance()
        self.baselines: dict[str, OwnSide] = {}
        self._kept: dict[str, list[Kept]] = {}
        self._sums: dict[str, list[int]] = {}

    @property
    def eager(self) -> OwnSide:
        return self.baselines["eager"]

    def open(self) -> None:
        """The reference's first calls, on the device."""
        try:
            self._open()
        except torch.OutOfMemoryError:
            raise Crowded from None

    def _open(self) -> None:
        reference, precision = self.reference, self.settings.precision
        set_precision(precision)
        self.baselines["eager"] = self._baseline("eager")
        drawn = reference.draw()
        must_vary(drawn, reference)
        known = self.known = Acquaintance(lower_precision=precision in ("bf16", "fp16"), aliases=True)
        first = self._first(drawn)
        if not first.specs:
            raise InvalidTask("the model returns no tensor: there is nothing to compare")
        known.mutates, known.aliases = frozenset(self.eager.mutated(first, drawn)), first.aliases
        known.strides = tuple(spec.stride for spec in first.specs)
        self.oracle.mutates = bool(known.mutates)
        outputs = [tensor.clone() for tensor in self.eager.outputs]
        self._first(drawn)
        must_repeat(outputs, self.eager.outputs)
        known.typical = self._typical(outputs)
        known.facts = {
            "input_bytes": sum(tensor.nbytes for tensor in drawn.tensors),
            "output_bytes": sum(spec.extent for spec in first.specs),
            "parameter_bytes": sum(value.nbytes for value in reference.seeded_state.values()),
            **self.care.rates(),
        }
        self.eager.forget()

    def compile(self) -> None:
        """The other baselines. Most of it happens on the host, so whoever calls this holds no lease on a GPU."""
        for name in self.settings.compiled:
            side = self.baselines[name] = self._baseline(name)
            side.module = torch.compile(side.module, mode=COMPILE_MODES[name])
            self._first(self.reference.draw(), side)
            side.forget()

    def terms(self, state: str) -> Terms:
        precision, breathe = self.settings.precision, nothing if self.device == "cpu" else self.lease.breathe
        return self.known.terms(precision=precision, state=state, deadline=lambda: 0.0, care=self.care, breathe=breathe)

    def draws(self, state: str) -> list[Kept]:
        """What kernels are tried on; made at the first use, for parameters that could be loaded and for those that could not."""
        if state not in self._kept:
            set_precision(self.settings.precision)
            self._use(state)
            self._kept[state] = [self._drawn(variant, state) for variant in DRAWS]
            self._use("loaded")
            self.eager.forget()
            self._sums[state] = self._summed(state)
        return self._kept[state]

    def look_again(self) -> bool:
        """After a wrong kernel: whether all is as it was. What has changed is thrown away."""
        changed = [state for state in self._kept if self._summed(state) != self._sums[state]]
        if changed:
            self._kept.clear()
            self._use("loaded")
        return not changed

    def _drawn(self, variant: str, state: str) -> Kept:
        kept = Kept(self.oracle, state, self.reference.draw(variant))
        try:
            kept.turn = self.eager.play(kept.drawn, self.terms(state))
        except SideFailed as failure:
            kept.failure = failure
            return kept
        kept.outputs = self.eager.outputs
        kept.after = self.eager.inputs if self.known.mutates else []
        try:
            self._keep_truth(kept)
        except torch.OutOfMemoryError:
            raise Crowded from None
        return kept

    def _keep_truth(self, kept: Kept) -> None:
        size = 0
        pieces = []
        for piece in self.oracle.truth(kept.drawn, kept.state, kept.outputs):
            pieces.append(piece)
            size += sum(tensor.nbytes for tensor in [*piece.outputs, *piece.inputs_after])
            if size > KEPT_BYTES:
                return
        kept.pieces = pieces

    def _typical(self, outputs: list[torch.Tensor]) -> tuple[float, ...]:
        small = [tensor.is_floating_point() and tensor.numel() <= SMALL_OUTPUT for tensor in outputs]
        if not any(small):
            return tuple(0.0 for _ in outputs)
        sizes = []
        for _ in range(TIMED_CALLS):
            self._first(self.reference.draw())
            sizes.append([root_mean_square(view) if one else 0.0 for view, one in zip(self.eager.outputs, small)])
        return tuple(max(column) for column in zip(*sizes))

    def _first(self, drawn: Drawn, side: OwnSide | None = None) -> Turn:
        side = side or self.eager
        try:
            return side.play(drawn, self.terms("loaded"))
        except SideFailed as failure:
            text = " ".join(str(failure.detail.get("text") or failure.text).split())
            if out_of_memory(text):
                raise Crowded from None
            told = f"raises {failure.detail.get('type', '')}: {text}"[:400]
            raise InvalidTask(f"{side.name} baseline: the reference {told}") from None

    def _baseline(self, name: str) -> OwnSide:
        reference, settings = self.reference, self.settings
        model = reference.build()
        model.load_state_dict(reference.state("loaded"), strict=True)
        return OwnSide(name, model.to(self.device), self.device, context=autocast(self.device, settings.precision))

    def _use(self, state: str) -> None:
        self.eager.module.load_state_dict(self.reference.state(state), strict=True)

    def _summed(self, state: str) -> list[int]:
        """One number for each tensor that later verdicts rest on."""
        tensors = [tensor for kept in self._kept[state] for tensor in kept.tensors()]
        parts = [*tensors, *self.eager.module.state_dict().values()]
        sums = [_sum(tensor) for tensor in parts if tensor.numel()]
        return torch.stack(sums).tolist() if sums else []  # type: ignore[no-any-return]


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    data = flat_bytes(tensor if is_dense(tensor.shape, tensor.stride()) else tensor.contiguous())
    # Weights that a recurrent module keeps in one piece of memory begin anywhere in it: read the widest words that lie evenly there.
    word = next(
        word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if data.storage_offset() % word.itemsize == 0
    )
    whole = data.numel() // word.itemsize * word.itemsize
    return data[:whole].view(word).sum(dtype=torch.int64) + data[whole:].sum(dtype=torch.int64)
