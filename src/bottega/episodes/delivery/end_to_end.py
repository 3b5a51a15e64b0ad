"""A whole model with faster parts in it, in one form (as it is, or inside of torch.compile): which parts help there, and how much all of them do.

Parts were proved by the judge, alone; here it is only about what they bring together. Calls are timed in this process, turn about, with the device
alone. A part is put in where the whole is surely faster with it, and taken out where it is surely faster without; answers must stay as right.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bottega.core.arguments import Arguments
from bottega.core.files import file_sha256
from bottega.core.verdict import Speedup
from bottega.episodes.delivery.answer_distance import AnswerDistance
from bottega.episodes.delivery.device_turn import DeviceTurn, OwnTurn
from bottega.episodes.delivery.drop_in.recorded import Recorded, recorded
from bottega.episodes.delivery.result import OPTIMIZED
from bottega.episodes.delivery.whole_model import EAGER, FormResult, Part, PartResult, form_text, mode_of, placed, told
from bottega.judge.loading import autocast
from bottega.judge.statistics import decided, interval

OURS, PLAIN = "optimized", "optimized, not compiled"
NO_HELP, NO_TIME = "does not help end to end", "not tried, for want of time"
ROUNDS, MOST_ROUNDS = 8, 60
LONGEST_TURN_S = 0.5
"""For which rounds follow each other before others may have the device."""
FLOOR = 0.005
"""Relative noise that is always allowed for."""
MOST_GRAPHS = 64
"""Compiled forms of one function that torch keeps. Models that differ by their parts share its code; past the limit it would run uncompiled."""
GENERATE, SCORES = "generate", {"return_dict_in_generate": True, "output_logits": True}
"""Of transformers: with it, the result holds each token's scores."""
Call = Callable[[nn.Module], Any]


@dataclass
class EndToEnd:
    model: nn.Module
    inputs: Arguments
    folder: Path
    """Of the run: the parts' files are in it."""
    form: str = EAGER
    precision: str = "fp32"
    say: Callable[[str], None] = print
    turn: DeviceTurn | None = None
    """The device's lock is this process's own if left out."""
    method: str = ""
    """Of the model, that is called in place of it: `generate`, say."""
    graphs: Any = None
    """Where calls are recorded; a GPU's own if left out."""
    rival: nn.Module = field(init=False)
    """What is to be beaten: the model in this form. It is compiled when it is first called."""

    def __post_init__(self) -> None:
        self.rival = self.model if self.form == EAGER else self._formed(shared_copy(self.model), False)
        self._turn = self.turn or OwnTurn(_device(self.model))

    def call(self, model: nn.Module, inputs: Arguments | None = None) -> Any:
        positional, keywords = inputs or self.inputs
        with torch.no_grad(), autocast("cuda" if _on_gpu(model) else "cpu", self.precision):
            return (getattr(model, self.method) if self.method else model)(*positional, **keywords)

    def _answer(self, model: nn.Module, inputs: Arguments) -> Any:
        """A call with what is compared in its result: of a text, the scores of each token."""
        asked = SCORES if self.method == GENERATE and hasattr(model, "generation_config") else {}
        return self.call(model, Arguments(inputs.positional, {**inputs.keywords, **asked}))

    def choose(self, parts: Sequence[Part], plain: FormResult | None = None) -> Iterator[FormResult]:
        """What is known after each step; the last is the result. `plain`: what helps the model as it is. Its parts (all, of the model as it is) are
        tried together, before each is put in or left out by itself: what each of many brings may be too little to be sure of. The model as it is,
        with what helps it, is held against this form's rival too.

        On a GPU the calls of what is tried are recorded, else the host that launches the kernels may be all that is timed. At the end those of the
        model as it is stay so if that helps.
        """
        with self._turn.shared():
            answers = AnswerDistance(self.model, self.inputs, self._answer, self.precision)
        together = plain.kept if plain else list(parts)
        alone = self.ours(together, plain.recorded, EAGER) if plain and plain.helps and self.form != EAGER else None
        chosen, best = list[Part](), self.rival
        told_of = {part.folder: PartResult(part, None, False, NO_TIME) for part in parts}
        known = self._measured(None, alone, answers)
        yield replace(known, parts=tuple(told_of.values()))
        can_record = self.graphs is not None or _on_gpu(self.model)
        records = can_record and not self.method and not (plain and plain.not_recorded)
        if records and self.form == EAGER:  # another form would be compiled once more, for that alone
            tried, reason, better = self.ours([], True), "", False
            try:
                speedup = compared({"before": best, "with": tried}, self.call, turn=self._turn)["with"]["before"]
                with self._turn.shared():
                    better = speedup.low > 1 and not answers.wrong(tried)
                reason = _not_recorded(tried)
            except Exception as failed:
                reason = _first_line(failed)
            records = not reason
            if records and better:
                best, known = tried, replace(self._measured(tried, alone, answers), recorded=True)
            known = replace(known, not_recorded=reason)
            self.say(
                f"calls are not recorded as CUDA graphs: {reason}" if reason else f"recorded, with no part: {told(speedup)}"
            )
            yield replace(known, parts=tuple(told_of.values()))
        for step in [together] * (len(together) > 1) + [[part] for part in parts]:
            leaves = step[0] in chosen
            trying = [part for part in parts if (part in step) != (part in chosen)]
            try:
                tried = self.ours(trying, records)
                speedup = compared({"before": best, "with": tried}, self.call, turn=self._turn)["with"]["before"]
                with self._turn.shared():
                    wrong = answers.wrong(tried) if speedup.low > 1 else ""
            except Exception as failed:  # what the parts' code and torch's compiler may raise nobody knows
                told_of |= {part.folder: PartResult(part, None, leaves, _first_line(failed)) for part in step}
                yield replace(known, parts=tuple(told_of.values()))
                continue
            better = speedup.low > 1 and not wrong
            brings = None if len(step) > 1 else _inverse(speedup) if leaves else speedup
            kept = better != leaves
            reason = "" if kept else wrong or NO_HELP + _not_run(tried, step)
            told_of |= {part.folder: PartResult(part, brings, kept, reason) for part in step}
            names = " and ".join(f"{part.label} in {len(part.places)} places" for part in step)
            self.say(
                f"{names}: {told(brings or speedup)} end to end, {form_text(self.form)}{'' if kept else '; it is left out'}"
            )
            if better:
                chosen, best = trying, tried
                known = replace(self._measured(best, alone, answers), recorded=records, not_recorded=known.not_recorded)
            yield replace(known, parts=tuple(told_of.values()))
        if known.recorded and self.form == EAGER:
            launched = self.ours(chosen, False)
            found = compared({"launched": launched, "recorded": best, self.form: self.rival}, self.call, turn=self._turn)
            gain = found["recorded"]["launched"]
            if gain.low > 1 or found["launched"][self.form].low <= 1:
                known = replace(known, recording=gain)
            else:
                known = self._measured(launched, alone, answers)
            yield replace(known, parts=tuple(told_of.values()))

    def ours(self, parts: Sequence[Part], records: bool, form: str = "") -> nn.Module:
        """The model with these parts in it, in this form."""
        return self._formed(self.with_parts(parts), records, form)

    def with_parts(self, parts: Sequence[Part]) -> nn.Module:
        """A copy of the model with these parts in it, and with its parameters."""
        made, fast = shared_copy(self.model), dict[tuple[int, str], nn.Module]()
        for place, part in placed(parts):
            there = made.get_submodule(place)
            if (id(there), part.folder) not in fast:  # one module may stand in several places
                load = getattr(imported(self.folder / part.folder / OPTIMIZED), part.entry)
                new = load(there, ignore=part.ignore)
                fast |= {(id(there), part.folder): new, (id(new), part.folder): new}
            made.set_submodule(place, fast[id(there), part.folder])
        return made

    def _formed(self, made: nn.Module, records: bool, form: str = "") -> nn.Module:
        mode = mode_of(form or self.form, records)
        if mode is not None:
            config: Any = torch._dynamo.config
            config.recompile_limit = max(config.recompile_limit, MOST_GRAPHS)
            made.compile(mode=mode)
        return recorded(made, self.graphs) if records else made

    def _measured(self, ours: nn.Module | None, alone: nn.Module | None, answers: AnswerDistance) -> FormResult:
        models = {OURS: ours, PLAIN: alone, self.form: self.rival, EAGER: self.model}
        there = {name: model for name, model in models.items() if model is not None}
        times: dict[str, list[float]] = {}
        found = compared(there, self.call, times, self._turn)
        with self._turn.shared():
            error, exact = answers.of(ours) if ours is not None else (0.0, answers.own)
            peaked = [name for name in (EAGER, OURS) if name in there and _on_gpu(self.model)]
            peaks = {name: _peak(there[name], self.call) for name in peaked}
        return FormResult(
            self.form,
            speedups={name: found[OURS][name] for name in (EAGER, self.form)} if ours is not None else {},
            plain=found[PLAIN][self.form] if alone is not None else None,
            times_ms={name: sorted(taken)[len(taken) // 2] * 1e3 for name, taken in times.items()},
            error=error,
            own_error=answers.own,
            exact_error=exact,
            exact_in=answers.exact_in,
            memory_bytes=peaks,
        )


def compared(
    models: Mapping[str, nn.Module], call: Call, times: dict[str, list[float]] | None = None, turn: DeviceTurn | None = None
) -> dict[str, dict[str, Speedup]]:
    """By model, its speedup against each of the others: calls turn about, until the intervals are narrow or patience ends."""
    times = {} if times is None else times
    times.update({name: [] for name in models})
    first, *rest = models
    turn = turn or OwnTurn(_device(models[first]))
    for model in models.values():  # warm: kernels are built, compilers compile
        for _ in range(2):
            with turn.shared():
                call(model)
                _settle(model)
    while not _decided(times, first, rest):
        with turn.alone():
            begun = time.monotonic()
            while not _decided(times, first, rest) and time.monotonic() - begun < LONGEST_TURN_S:
                for name in list(models) if len(times[first]) % 2 else list(models)[::-1]:
                    times[name].append(_seconds(models[name], call))
    return {one: {other: interval(times[other], times[one], FLOOR) for other in models if other != one} for one in models}


def _decided(times: Mapping[str, Sequence[float]], first: str, rest: Sequence[str]) -> bool:
    rounds = len(times[first])
    if rounds >= MOST_ROUNDS:
        return True
    return rounds >= ROUNDS and all(decided(interval(times[first], times[name], FLOOR)) for name in rest)


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy with the same parameters and buffers: modules can be exchanged in it, and nothing is held twice."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def imported(path: Path) -> Any:
    """A delivered file, under a name of its own, so that what it makes can be pickled."""
    name = f"bottega_optimized_{file_sha256(path)[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def _not_run(model: nn.Module, parts: Sequence[Part]) -> str:
    """Why the originals ran in all places of these parts, if they did."""
    places = {place for part in parts for place in part.places}
    there = [each for name, each in model.named_modules() if name in places]
    reasons = dict.fromkeys(reason for each in there for reason in getattr(each, "fallbacks", ()))
    return f"; the original runs there: {', '.join(reasons)}" if reasons and not any(map(_calls, there)) else ""


def _not_recorded(model: nn.Module) -> str:
    """Why its calls are not replayed, if they are not."""
    stands: Any = model._compiled_call_impl
    if not isinstance(stands, Recorded) or stands.replays:
        return ""
    return max(stands.others, key=lambda reason: stands.others[reason], default="it was not called")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _calls(module: nn.Module) -> int:
    return int(getattr(module, "calls", 0))


def _inverse(speedup: Speedup) -> Speedup:
    return Speedup(1 / speedup.point, 1 / speedup.high, 1 / speedup.low)


def _settle(model: nn.Module) -> None:
    """No work of ours is left on the device."""
    if _on_gpu(model):
        torch.cuda.synchronize()


def _seconds(model: nn.Module, call: Call) -> float:
    if _on_gpu(model):
        begun, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        call(model)
        end.record()
        end.synchronize()
        return float(begun.elapsed_time(end)) / 1e3
    begun_at = time.perf_counter()
    call(model)
    return time.perf_counter() - begun_at


def _device(model: nn.Module) -> str:
    """Of its first tensor on a GPU, else the CPU."""
    return next((str(tensor.device) for tensor in (*model.parameters(), *model.buffers()) if tensor.is_cuda), "cpu")


def on_device_of(model: nn.Module) -> torch.cuda.device_of:
    """Its GPU is the current one inside: events are recorded there, and kernels run on no other."""
    tensors = (*model.parameters(), *model.buffers())
    return torch.cuda.device_of(next((tensor for tensor in tensors if tensor.is_cuda), torch.empty(0)))


def _on_gpu(model: nn.Module) -> bool:
    return _device(model) != "cpu"


def _peak(model: nn.Module, call: Call) -> int:
    torch.cuda.reset_peak_memory_stats()
    call(model)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()
