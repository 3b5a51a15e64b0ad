"""Fresh secret inputs for every call: drawn by the task's own `get_inputs`, and varied so that shortcuts show.

A variant changes values, never structure (`input_variants`). Each tensor gets memory of its own: that two inputs
share some is not part of a task. Which variants make sense for a task is decided by the reference:
one on which it overflows or loses its precision is not used against a candidate.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from bottega.core.arguments import read_arguments
from bottega.judge.discrete_variants import (
    GUESSABLE,
    INTEGERS,
    KEPT,
    apply_discrete,
    change_one_place,
    discrete_structure,
    flip_one_place,
    kind_of_table,
    varies_values,
)
from bottega.judge.input_variants import PIECE, SHRUNK, Strength, apply_variant, loosen, strengths, structure
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.tensor_transport import (
    TensorSpec,
    Unsupported,
    flat,
    flatten,
    is_dense,
    must_have_plain_memory,
    unflatten,
)
from bottega.judge.tilt import tilt
from bottega.judge.variants import OF_INTEGERS, PARTS

PLACE_FACTOR = 0x5851F42D4C957F2D
"""Odd and large, so that places have numbers far apart (`digest`)."""
DIGESTED_PIECE = 1 << 22
"""The same of a digest: three times as many words of eight bytes are held meanwhile, beside the inputs, and kept by the allocator when the first
outputs come. They made the controller's peak of a task of 1 GB 0.3 GB larger than that of any other step."""
TILTED = ("free", "sparse", "masked")
TRIED_ON_THE_HOST = 64 << 20
"""Bytes of the inputs of a task for a GPU up to which the host tries its other integers first."""


@dataclass
class InputSet:
    """One set of inputs, in the controller's own memory or in the input arena of trusted runners (`Runner.take_in`)."""

    skeleton: Any
    """Of a pair: positional arguments, and keywords."""
    tensors: list[torch.Tensor]
    variant: str
    home: object = None
    specs: list[TensorSpec] = field(default_factory=list)
    """Where they lie in the home's inputs."""

    def call(self, module: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        """What `module` makes of these inputs, with `tensors` in the places of their own."""
        positional, keywords = unflatten(self.skeleton, tensors)
        return module(*positional, **keywords)


def anything(*positional: Any, **keywords: Any) -> None:
    """A signature that takes every call."""


class InputSource:
    def __init__(self, get_inputs: Callable[[], Any], device: str, forward: Callable[..., Any] = anything):
        self.get_inputs = get_inputs
        self.device = device
        self.forward = forward
        """What the inputs are for: its signature says which of them go by name."""
        self.on_device = device != "cpu"
        """Whether the task's factory calls may be sent to the device directly; cleared when that fails once."""
        self.kinds: list[str] | None = None
        self.discrete: list[str] | None = None
        """What the integers, booleans and few-valued inputs are like (`discrete_variants`)."""
        self._first_digests: list[Any] | None = None
        self._tables: dict[int, str] = {}
        """Inputs that are the same in every draw, with what they are like: a little of them changes from call to call, so that what was made of them
        cannot be kept."""
        self._reorder_only: bool | None = None
        self.tilted: bool | None = None
        """Whether numbers of variants are such as a lower precision rounds all up, or all down (`tilt`); None: they are left as they are."""
        self._weakened: dict[str, int] = {}
        """By variant, how many of the strengths the reference had no accurate answer to."""
        self._answered: dict[str, int] = {}
        """The same of the strongest form that it had one to."""

    def restore(self) -> None:
        """Before the next candidate: a form that had an answer once is tried again. Or else whoever has many candidates judged would wear the
        variants down, draw by draw without one."""
        self._weakened |= self._answered

    def answered(self, variant: str) -> None:
        """The reference had an accurate answer to a variant in its present form."""
        tried = self._weakened.get(variant, 0)
        self._answered[variant] = min(tried, self._answered.get(variant, tried))

    def weaken(self, variant: str) -> bool:
        """Have a variant go less far. False where it cannot, and is left as it is."""
        if variant in PARTS:
            return False  # they are as strong as the whole
        tried, forms = self._weakened.get(variant, 0) + 1, strengths(variant)
        if (
            tried < len(forms)
            and "sorted" not in (self.kinds or ())
            and forms[tried] == replace(forms[tried - 1], ordered=False)
        ):
            tried += 1  # the same once more
        if tried >= len(forms):
            return False
        if not forms[tried].enlarged and not set(self.kinds or SHRUNK) & set(SHRUNK):
            return False  # it would be the plain one by another name
        self._weakened[variant] = tried
        return True

    @property
    def has_discrete(self) -> bool:
        """Whether the variants of integers change anything. Known from the second draw on."""
        return any(kind != "fixed" for kind in self.discrete or ())

    def strength(self, variant: str) -> Strength:
        if variant in PARTS:
            whole = self.strength("spiked")
            return replace(whole, faint=False) if variant == "large" else replace(whole, enlarged=False, extreme=True)
        return strengths(variant)[self._weakened.get(variant, 0)]

    @property
    def parts(self) -> tuple[str, ...]:
        """Into which `spiked`, as far as it goes here, can be taken apart. Of weak spikes nothing is known of faint slices and zeros alone."""
        whole = self.strength("spiked")
        if not whole.enlarged or not set(self.kinds or ()) & set(SHRUNK):
            return ()
        return PARTS if whole.extreme else ("faint",)

    @property
    def parts_with_an_answer(self) -> tuple[str, ...]:
        """The same of what the reference has an accurate answer to, as it has one to the whole."""
        whole = self.strength("spiked")
        return self.parts if whole.extreme else ("mixed",) if self.parts and whole.signed else ()

    def draw(self, variant: str = "plain", take_in: Callable[[InputSet], None] | None = None) -> InputSet:
        """Fresh inputs. `take_in` moves them to another memory before the variant is applied, so that nothing large exists twice."""
        torch.manual_seed(secrets.randbits(62))
        try:
            skeleton, tensors = flatten(tuple(read_arguments(self._call(), self.forward)))
            unflatten(skeleton, tensors)
            for place in range(len(tensors)):  # no name outlives this that would keep a tensor
                must_have_plain_memory(tensors[place])
        except Unsupported as reason:
            raise InvalidTask(f"get_inputs() returns {reason}") from None
        drawn = InputSet(skeleton, [_dense(tensors[place].detach().to(self.device)) for place in range(len(tensors))], variant)
        del tensors
        if take_in is not None:
            take_in(drawn)
        self._refresh_tables(drawn)
        if self.discrete is None:
            self._look_for_discrete(drawn)
        if variant in OF_INTEGERS:
            self._vary_discrete(drawn)
        elif variant != "plain":
            if self.kinds is None:
                self.kinds = [structure(tensor) for tensor in drawn.tensors]
            for place in _to_be_varied(drawn, self.kinds):
                values = "spiked" if variant in PARTS else variant
                apply_variant(drawn.tensors[place], self.kinds[place], values, self.strength(variant))
                if self.tilted is not None and self.kinds[place] in TILTED:
                    tilt(drawn.tensors[place], self.tilted)
        return drawn

    def _look_for_discrete(self, drawn: InputSet) -> None:
        """From two draws: what is the same in both is a table, which others rest on, unless anybody could guess it. To which segment each row belongs
        must be the only thing that tells so."""
        kinds = [discrete_structure(tensor) for tensor in drawn.tensors]
        digests = [digest(tensor) for tensor in drawn.tensors]
        before, self._first_digests = self._first_digests, digests
        if before is None:
            return
        self.discrete = []
        for seen, tensor, one, two in zip(kinds, drawn.tensors, before, digests):
            is_table = one == two and (varies_values(seen) or seen == "fixed")
            kind = kind_of_table(tensor) if is_table else seen
            self.discrete.append(kind if varies_values(kind) == (one != two) else "fixed")
        if sum(tensor.dtype in INTEGERS and tensor.dtype != torch.bool for tensor in drawn.tensors) > 1:
            self.discrete = ["fixed" if kind == "segments" else kind for kind in self.discrete]
        tables = [
            place
            for place, (tensor, kind) in enumerate(zip(drawn.tensors, self.discrete))
            if (tensor.dtype in INTEGERS or kind in GUESSABLE) and not varies_values(kind)
        ]
        if len(tables) > 1:  # one may tell of the other: where parts begin, and to which part each row belongs
            self.discrete = ["fixed" if kind in GUESSABLE else kind for kind in self.discrete]
        for place, (tensor, kind, one, two) in enumerate(zip(drawn.tensors, self.discrete, before, digests)):
            if one != two:
                continue
            like = kind if tensor.dtype == torch.bool or kind in ("mask", *KEPT) else structure(tensor)
            if like in ("mask", "free", "sparse") or (like in KEPT and len(tables) == 1 and self._answers_to(drawn, place)):
                self._tables[place] = like

    def _refresh_tables(self, drawn: InputSet) -> None:
        for place in _to_be_varied(drawn, [self._tables.get(place, "fixed") for place in range(len(drawn.tensors))]):
            kind, tensor = self._tables[place], drawn.tensors[place]
            if kind in KEPT:
                change_one_place(tensor, kind)
            else:
                (flip_one_place if kind == "mask" else loosen)(tensor)

    def _vary_discrete(self, drawn: InputSet) -> None:
        kinds, strength = self.discrete or [], self.strength(drawn.variant)
        if self._reorder_only is None:
            self._reorder_only = self.device != "cpu" and not self._host_answers(drawn)
        for place in _to_be_varied(drawn, kinds):
            apply_discrete(drawn.tensors[place], kinds[place], drawn.variant, strength, reorder_only=self._reorder_only)

    def _host_answers(self, drawn: InputSet) -> bool:
        """Whether the reference has an answer to other integers."""

        def vary(tensors: list[torch.Tensor], variant: str) -> None:
            for tensor, kind in zip(tensors, self.discrete or []):
                if kind != "fixed":
                    apply_discrete(tensor, kind, variant, self.strength(variant))

        return all(self._answers(drawn, partial(vary, variant=variant)) for variant in OF_INTEGERS)

    def _answers_to(self, drawn: InputSet, place: int) -> bool:
        """The same of a table that is another one in every call."""
        kind = (self.discrete or [])[place]
        return self._answers(drawn, lambda tensors: change_one_place(tensors[place], kind))

    def _answers(self, drawn: InputSet, change: Callable[[list[torch.Tensor]], None]) -> bool:
        """Asked of the host: on a GPU an index out of range ends the process."""
        if sum(tensor.nbytes for tensor in drawn.tensors) > TRIED_ON_THE_HOST:
            return False
        tried = [tensor.to("cpu", copy=True) for tensor in drawn.tensors]
        try:
            change(tried)
            with torch.no_grad():
                drawn.call(self.forward, tried)
        except Exception:
            return False
        return True

    def _call(self) -> Any:
        with torch.no_grad(), unseeded():
            if self.on_device:
                try:
                    with torch.device(self.device):
                        return self.get_inputs()
                except torch.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    with torch.device(self.device):
                        return self.get_inputs()
                except Exception:
                    self.on_device = False
            with nullcontext():
                return self.get_inputs()


@contextmanager
def unseeded() -> Iterator[None]:
    """A task that seeds the generators itself would draw the same inputs every time: here it cannot."""
    import random

    import numpy

    places: list[tuple[Any, str]] = [(random, "seed"), (numpy.random, "seed")]
    places += [
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
    ]
    kept = [(module, name, getattr(module, name)) for module, name in places]
    try:
        for module, name in places:
            setattr(module, name, lambda *arguments, **options: None)
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def _to_be_varied(drawn: InputSet, kinds: Sequence[str]) -> Iterator[int]:
    """Places of the inputs that are to be changed, each in memory of its own by then: the task may keep what it hands out."""
    for place, kind in enumerate(kinds):
        if kind != "fixed":
            if drawn.home is None:
                drawn.tensors[place] = drawn.tensors[place].clone()
            yield place


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return flat(tensor).view(torch.uint8)


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, so that NaN equals itself. Both are dense and laid out alike."""
    if left.numel() == 0:
        return True
    width = next(
        word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if flat_bytes(left).numel() % word.itemsize == 0
    )
    a, b = flat_bytes(left).view(width), flat_bytes(right).view(width)
    differ = [(x != y).any() for x, y in zip(a.split(PIECE), b.split(PIECE))]
    return not bool(torch.stack(differ).any())


def digest(tensor: torch.Tensor) -> tuple[tuple[int, ...], int]:
    """Shape, and the sum of the words of a dense tensor, each times a number that its place gives: alike for the same contents, and hardly ever
    for others, in another order included."""
    words = flat_bytes(tensor)
    width = next(word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if words.numel() % word.itemsize == 0)
    sums = []
    for number, piece in enumerate(words.view(width).split(DIGESTED_PIECE)):
        first = number * DIGESTED_PIECE
        places = torch.arange(first, first + piece.numel(), device=tensor.device)
        sums.append((piece.long() * (places * PLACE_FACTOR + 1)).sum())  # wraps, which does no harm
    return tuple(tensor.shape), int(torch.stack(sums).sum())  # read once: each number waits for a time slice of a shared GPU


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor of our own with the same values: views, expansions and conjugations are resolved, dense layouts kept."""
    if type(tensor) is not torch.Tensor:
        tensor = tensor.as_subclass(torch.Tensor)
    tensor = tensor.resolve_conj().resolve_neg()
    if is_dense(tensor.shape, tensor.stride()):
        return tensor.clone() if tensor._base is not None or tensor.untyped_storage().nbytes() > tensor.nbytes else tensor
    return tensor.contiguous()
