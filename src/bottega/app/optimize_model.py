"""A whole model: its calls are captured, its modules searched, and what they bring together is measured in each form that it may run in."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import nn

from bottega.app.call_shares import call_shares, kernel_calls
from bottega.app.interrupts import hearing_signals
from bottega.app.open_model import call_of_part
from bottega.app.optimize_parts import Searched, search_costliest
from bottega.app.optimize_run import FinishedRun, check
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import say as say_line
from bottega.core.arguments import Arguments
from bottega.core.errors import UsageError
from bottega.core.files import json_text, strict, write
from bottega.episodes.delivery.alike import alike
from bottega.episodes.delivery.check import ClaimCheck
from bottega.episodes.delivery.drop_in.recorded import recorded
from bottega.episodes.delivery.end_to_end import EndToEnd, on_device_of
from bottega.episodes.delivery.form_process import FormProcess
from bottega.episodes.delivery.optimized_file import RECORDED_PARTS, drop_in_text
from bottega.episodes.delivery.result import OPTIMIZED
from bottega.episodes.delivery.whole_model import EAGER, FormResult, Part, WholeModel, form_text, placed, report_of, told
from bottega.episodes.request import next_folder
from bottega.judge.baselines import measured, parse_baselines
from bottega.judge.loading import autocast
from bottega.tasks.capture_calls import Capture, capture, shapes_of

CALLS = 3
MEMORY_OF_FORM = 4
"""Times a model's weights: with what it computes, and an exact copy."""
NO_CACHE = "It was called without a cache: call it with `use_cache=False`, or the layers of the original run."
GENERATES = "While it generates a text its modules are called with other shapes and a cache: `method=generate` optimizes that."
LOADER = '''"""{title} with the parts in it that were proved and help end to end. Needs torch and the files in modules/, and no Bottega.

Measured {form}: {measured}.{cache}
"""

import importlib.util
import pathlib
import sys

MODE = {mode!r}
RECORDED = {recorded!r}
PARTS = {parts}


def load(model, compiled=True, recorded=True):
    """Puts the faster parts into the model, which goes on with its own parameters, and has torch compile it and its calls recorded as CUDA graphs if
    that is how it was measured."""
    here, fast = pathlib.Path(__file__).parent, {{}}
    for place, folder, entry, ignore in PARTS:
        name = "bottega_" + folder.replace("/", "_")
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, here / folder / "{file}")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        there = model.get_submodule(place)
        if (id(there), folder) not in fast:  # one module may stand in several places
            new = getattr(sys.modules[name], entry)(there, ignore=ignore)
            fast[id(there), folder] = fast[id(new), folder] = new
        model.set_submodule(place, fast[id(there), folder])
    if MODE and compiled:
        model.compile(mode=MODE)
    if RECORDED and recorded:
        _recording()(model)
    return model
{recording}'''
RECORDING = """

# ---- Recorded calls (Bottega, Apache-2.0). ----
def _recording():
{text}
    return recorded
"""


@dataclass(frozen=True)
class OptimizedModel(FinishedRun):
    """A finished search over a whole model: a copy of it with the parts in it that help, in the form that was fastest."""

    whole: WholeModel = field(repr=False)
    searched: tuple[Searched, ...] = field(default=(), repr=False)

    @property
    def found(self) -> bool:
        return self.whole.best is not None

    def check(self) -> list[ClaimCheck]:
        """Judge every part that is in the model again, from its files alone."""
        kept = {part.folder for part in self.whole.best.kept} if self.whole.best else set()
        return [
            check(each.folder, each.result)
            for each in self.searched
            if each.result is not None and str(each.folder.relative_to(self.folder)) in kept
        ]


def optimize_model(model: nn.Module, inputs: Arguments, out: Path | None, settings: OptimizeSettings) -> OptimizedModel:
    folder = out if out is not None else next_folder(type(model).__name__, Path(), settings.resume)
    if (folder / "tasks").exists() != settings.resume:
        found = (
            "no run to resume is there"
            if settings.resume
            else "holds a run already; go on with --resume, or give another --out"
        )
        raise UsageError(f"{folder}: {found}")
    say = (lambda text: None) if settings.quiet else lambda text: say_line(text, err=True)
    baselines = parse_baselines(settings.baseline)
    forms = [name for name in measured(baselines) if name != EAGER]
    with (
        hearing_signals(_interrupt),
        _as_it_was(model),
        _products(settings.precision),
        on_device_of(model),
        contextlib.ExitStack() as beside,
    ):
        calls = _captured(model, inputs, folder, settings)
        _free_memory()
        say(calls.report)
        roots = [key for key, modules in calls.modules.items() if id(model) in modules]
        task = calls.calls[roots[0]].task if roots and not settings.method else ""
        processes = [FormProcess(folder, folder / task, form, settings.device, settings.precision) for form in forms if task]
        earlier = _earlier(folder) if settings.resume else {}
        for process in processes:
            beside.callback(process.close)
            if process.form not in earlier and _fit_beside(model, len(processes)):
                say(f"compiling {type(model).__name__} beside the search, {form_text(process.form)}")
                process.start()
        of_parts = settings.model_copy(update={"baseline": EAGER})  # end to end they are held against the others
        searched = list(search_costliest(list(calls), folder, of_parts, say, roots))
        parts = _parts(model, inputs, calls, searched, folder, settings.method)
        say(f"measuring {type(model).__name__} end to end with {len(parts)} faster {'part' if len(parts) == 1 else 'parts'}")
        as_it_is = EndToEnd(model, inputs, folder, EAGER, settings.precision, say, method=settings.method)
        whole = WholeModel((), baselines)

        def keep(result: FormResult) -> WholeModel:
            """Whatever ends the next step."""
            known = WholeModel((*whole.forms, result), baselines)
            write_model(known)
            return known

        def write_model(known: WholeModel) -> None:
            _write(folder, model, inputs, known, [each.text for each in searched], settings.method)

        by_folder = {part.folder: part for part in parts}
        known = {form: each for form, each in earlier.items() if {one.part.folder: one.part for one in each.parts} == by_folder}
        for result in _until_interrupted(_results(as_it_is, forms, parts, processes, settings, known, keep), forms):
            whole = keep(result)
            if result.missing:
                say(f"{result.text}: {result.missing}")
        best = whole.best
        fast = as_it_is.with_parts(best.kept if best else ())
        ran = kernel_calls(fast, as_it_is.call)
        whole = replace(whole, shares=call_shares(list(calls), CALLS, roots, searched, whole, folder, ran))
        write_model(whole)
    if best is not None and best.mode is not None:
        fast.compile(mode=best.mode)
    if best is not None and best.recorded:
        recorded(fast)
    return OptimizedModel(fast, folder, whole, tuple(searched))


def _captured(model: nn.Module, inputs: Arguments, folder: Path, settings: OptimizeSettings) -> Capture:
    function = getattr(model, settings.method) if settings.method else model
    with torch.no_grad(), autocast(settings.device, settings.precision):
        try:
            function(*inputs.positional, **inputs.keywords)
        except Exception as error:  # the user's code, called as the user says or as we guess
            first = next(iter(str(error).splitlines()), "")
            raise UsageError(
                f"{type(model).__name__} cannot be called with {shapes_of(*inputs)}: {type(error).__name__}: {first}; "
                "say how to call it with --inputs"
            ) from error
        with capture(folder, model, settings.resume) as calls:
            for _ in range(CALLS):
                function(*inputs.positional, **inputs.keywords)
    return calls


def _fit_beside(model: nn.Module, processes: int) -> bool:
    """Whether so many forms of it may compile beside the search: half of a GPU's free memory is the judge's. On a CPU they would slow down what is
    timed."""
    if not any(tensor.is_cuda for tensor in model.parameters()):
        return False
    weights = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return MEMORY_OF_FORM * weights * processes <= torch.cuda.mem_get_info()[0] / 2


def _keeps_no_cache(model: nn.Module) -> bool:
    return any(getattr(getattr(part, "config", None), "use_cache", None) is False for part in model.modules())


def _free_memory() -> None:
    """It is other processes' now."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Calls of a model that trains change its statistics."""
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()] if model.training else []
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)


def _interrupt() -> bool:
    raise KeyboardInterrupt


def _until_interrupted(results: Iterator[FormResult], forms: Sequence[str]) -> Iterator[FormResult]:
    """What was measured before Ctrl-C, and a word on the rest."""
    yield next(results)
    missing = list(forms)
    try:
        for result in results:
            missing.remove(result.form)
            yield result
    except KeyboardInterrupt:
        yield from (FormResult(form, missing="not measured: interrupted") for form in missing)


@contextlib.contextmanager
def _products(precision: str) -> Iterator[None]:
    """Where parts are held against a module in TF32, the whole model is too."""
    before = torch.get_float32_matmul_precision()
    if precision == "tf32":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _results(
    as_it_is: EndToEnd,
    forms: Sequence[str],
    parts: Sequence[Part],
    processes: Sequence[FormProcess],
    settings: OptimizeSettings,
    known: Mapping[str, FormResult],
    keep: Callable[[FormResult], object],
) -> Iterator[FormResult]:
    """The model as it is, then one compiled form after the other, each for its share of the time that is left. What is `known` is not measured
    again; `keep` is told of what is found on the way."""
    plain = known.get(EAGER) or _last(EAGER, as_it_is.choose(parts))
    yield plain
    _free_memory()
    minutes = settings.compile_minutes
    over = math.inf if minutes is None else time.monotonic() + minutes * 60
    for number, form in enumerate(forms):
        if form in known:
            yield known[form]
            continue
        if not parts and not plain.helps:
            yield FormResult(form, missing="not measured: there is no faster part to put in")
            continue
        if not processes:  # the model has something that no other process can be told of
            yield _last(form, replace(as_it_is, form=form).choose(parts, plain))
            continue
        process = processes[number]
        process.start()
        share = None if minutes is None else (over - time.monotonic()) / (len(forms) - number)
        yield process.choose(parts, plain, share, as_it_is.say, keep)
        process.close()


def _earlier(folder: Path) -> dict[str, FormResult]:
    """The forms that were measured before the run was cut off, with parts or to the end."""
    try:
        found = json.loads((folder / "whole_model.json").read_text(encoding="utf-8"))["forms"]
        forms = [FormResult.from_json(each) for each in found]
    except (OSError, ValueError, LookupError, TypeError):  # none, or of another version
        return {}
    return {each.form: each for each in forms if each.speedups or (each.times_ms and not each.missing)}


def _parts(
    model: nn.Module, inputs: Arguments, calls: Capture, searched: list[Searched], folder: Path, method: str
) -> list[Part]:
    """Those with a faster form, by the names of all places of modules like the one that was judged."""
    names: dict[int, list[str]] = {}
    for name, part in model.named_modules(remove_duplicate=False):
        names.setdefault(id(part), []).append(name)
    found = []
    for each in searched:
        if each.result is not None and each.result.outcome == "faster" and not each.result.refused:
            modules = list(calls.modules[each.call.key].values())
            call = each.call
            same, ignore = alike(modules, call_of_part(model, names[id(modules[0])][0], inputs, method, call.shapes))
            places = tuple(name for module in same for name in names[id(module)])
            where = str(each.folder.relative_to(folder))
            found.append(Part(call.name, places, where, each.result.load, ignore, call.shapes, call.count))
    return found


def _last(form: str, results: Iterator[FormResult]) -> FormResult:
    """What was known before an error, with a word on it: what was found stays."""
    last = FormResult(form)
    try:
        for each in results:
            last = each
    except Exception as error:  # of the user's model, or of torch's compiler
        first = next(iter(str(error).splitlines()), "")
        return replace(last, missing=f"{'' if last.times_ms else 'not measured: '}{type(error).__name__}: {first}")
    return last


def _write(folder: Path, model: nn.Module, inputs: Arguments, whole: WholeModel, searched: list[str], method: str) -> None:
    title, cache = type(model).__name__, [NO_CACHE] if _keeps_no_cache(model) and not method else []
    if not method and hasattr(model, "generation_config"):
        cache.append(GENERATES)
    called = f"{f'Its method `{method}` was called' if method else 'Called'} with `{shapes_of(*inputs)}`."
    write(folder / "report.md", report_of(whole, title, searched, " ".join([called, *cache])))
    write(folder / "whole_model.json", json_text(strict(whole.to_json())))
    if whole.best is not None:
        put_in = tuple((place, part.folder, part.entry, part.ignore) for place, part in placed(whole.best.kept))
        speeds = ", ".join(f"{told(speedup)} over {name}" for name, speedup in whole.speedups.items())
        text = LOADER.format(
            title=title,
            parts=put_in,
            file=OPTIMIZED,
            mode=whole.best.mode,
            recorded=whole.best.recorded,
            recording=RECORDING.format(text=drop_in_text(RECORDED_PARTS)) if whole.best.recorded else "",
            form=whole.best.text,
            measured=speeds,
            cache="".join(f"\n\n{each}" for each in cache),
        )
        write(folder / "optimized_model.py", text)
    else:
        (folder / "optimized_model.py").unlink(missing_ok=True)
