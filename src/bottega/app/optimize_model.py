"""A whole model, or a capture of a program: which of its modules are worth a search, one search for each kind, and what they bring together."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bottega.app.optimize_run import FinishedRun, check, loaded, search
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import say as say_line
from bottega.core.arguments import Arguments, read_arguments
from bottega.core.errors import BottegaError, UsageError
from bottega.core.files import json_text, strict, write
from bottega.episodes.delivery.cache_index import ignorable
from bottega.episodes.delivery.check import ClaimCheck
from bottega.episodes.delivery.result import OPTIMIZED, Result
from bottega.episodes.delivery.whole_model import Part, WholeModel, assembled, report_of
from bottega.episodes.request import next_folder
from bottega.judge.baselines import parse_baselines
from bottega.judge.device_facts import require_device
from bottega.judge.loading import import_source
from bottega.tasks.capture_calls import CapturedCall, capture, read_capture, shapes_of
from bottega.tasks.module import ModuleTask, Wanted, open_module

CALLS = 3
LARGEST_PARTS = 120
"""Modules in one that is searched as a whole: a larger one is searched by its parts."""
TOKENS = 128
"""Of a text that a model is called with where nobody says how."""
LEAST_SHARE = 0.02
HUGGING_FACE = "hf:"
LOADER = '''"""{title} with the parts in it that were proved and help end to end. Needs torch and the files in modules/, and no Bottega."""

import importlib.util
import pathlib
import sys

PARTS = {parts}


def load(model):
    """Puts the faster parts into the model, which goes on with its own parameters."""
    here = pathlib.Path(__file__).parent
    for place, (folder, entry, ignore) in PARTS.items():
        name = "bottega_" + folder.replace("/", "_")
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, here / folder / "{file}")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        model.set_submodule(place, getattr(sys.modules[name], entry)(model.get_submodule(place), ignore=ignore))
    return model
'''


@dataclass(frozen=True)
class Searched:
    """One search of several."""

    call: CapturedCall
    result: Result | None
    folder: Path
    error: str = ""

    @property
    def text(self) -> str:
        if self.result is None:
            return f"{self.call.name}({self.call.shapes:.60}): {self.error}"
        claims = ", ".join(f"{claim.point:.2f}× {name}" for name, claim in self.result.claim.items())
        missed = self.result.missed if self.result.attempts else self.result.ended
        return f"{self.call.name}({self.call.shapes:.60}): {claims or missed}"


@dataclass(frozen=True)
class OptimizedModel(FinishedRun):
    """A finished search over a whole model: a copy of it with the parts in it that help."""

    whole: WholeModel
    searched: tuple[Searched, ...] = field(default=(), repr=False)

    @property
    def found(self) -> bool:
        return bool(self.whole.kept)

    def check(self) -> list[ClaimCheck]:
        """Judge every part that is in the model again, from its files alone."""
        kept = {result.part.folder for result in self.whole.kept}
        return [
            check(each.folder, each.result)
            for each in self.searched
            if each.result is not None and str(each.folder.relative_to(self.folder)) in kept
        ]


def optimize_model(model: nn.Module, inputs: Arguments, out: Path | None, settings: OptimizeSettings) -> OptimizedModel:
    folder = out if out is not None else next_folder(type(model).__name__, Path(), False)
    say = (lambda text: None) if settings.quiet else lambda text: say_line(text, err=True)
    with torch.no_grad():
        try:
            model(*inputs.positional, **inputs.keywords)
        except Exception as error:  # the user's code, called as the user says or as we guess
            first = next(iter(str(error).splitlines()), "")
            raise UsageError(
                f"{type(model).__name__} cannot be called with {shapes_of(*inputs)}: {type(error).__name__}: {first}; "
                "say how to call it with --inputs"
            ) from error
        with capture(folder, model) as calls:
            for _ in range(CALLS):
                model(*inputs.positional, **inputs.keywords)
    say(calls.report)
    names = {id(part): name for name, part in model.named_modules()}
    searched, parts = [], []
    for each in search_costliest(list(calls), folder, settings, say, inputs_of_root=type(model).__name__):
        searched.append(each)
        if each.result is not None and each.result.outcome == "faster" and not each.result.refused:
            places = tuple(name for key in calls.modules[each.call.key] if (name := names[key]))
            where = str(each.folder.relative_to(folder))
            parts.append(Part(each.call.name, places, _any_layer(loaded(each.folder, each.result)), where))
    say(f"measuring {type(model).__name__} end to end with {len(parts)} faster parts")
    whole = assembled(model, parts, inputs, parse_baselines(settings.baseline), say)
    loads = {each.folder: each.result.load for each in searched if each.result is not None}
    put_in = {
        place: (result.part.folder, loads[folder / result.part.folder], ignorable(model.get_submodule(place)))
        for result in whole.kept
        for place in result.part.places
    }
    title = type(model).__name__
    write(folder / "report.md", report_of(whole, title, [each.text for each in searched]))
    write(folder / "optimized_model.py", LOADER.format(title=title, parts=put_in, file=OPTIMIZED))
    facts = {
        "speedups": {name: asdict(speedup) for name, speedup in whole.speedups.items()},
        "times_ms": whole.times_ms,
        "error": whole.error,
        "own_error": whole.own_error,
        "fp64_error": whole.fp64_error,
        "memory_bytes": whole.memory_bytes,
        "parts": [
            {"name": each.part.label, "places": each.part.places, "folder": each.part.folder, "kept": each.kept, "reason": each.reason,
             "speedup": asdict(each.speedup) if each.speedup else None} for each in whole.parts
        ],
    }  # fmt: skip
    write(folder / "whole_model.json", json_text(strict(facts)))
    return OptimizedModel(whole.module, folder, whole, tuple(searched))


def search_costliest(
    calls: Sequence[CapturedCall],
    folder: Path,
    settings: OptimizeSettings,
    say: Callable[[str], None],
    inputs_of_root: str = "",
    source: Path | None = None,
) -> Iterator[Searched]:
    """A search for each kind of call that is worth one, the costliest first. What stands inside of a module that was found is left out, and so is
    the root: it is measured, not searched."""
    total = max((call.seconds for call in calls), default=0.0)
    done: set[str] = set()
    begun, tried = time.monotonic(), 0
    for call in calls:
        worth = call.task and call.parts <= LARGEST_PARTS and call.light_seconds > LEAST_SHARE * total
        if not worth or call.name == inputs_of_root or _inside(call, done, calls):
            continue
        left = None if settings.minutes is None else settings.minutes - (time.monotonic() - begun) / 60
        if tried >= settings.modules or (left is not None and left <= 0):
            return
        share_of_time = None if left is None else left / (settings.modules - tried)
        tried += 1
        place = folder / "modules" / f"{call.name}_{call.key}"
        share = call.light_seconds / total if total else 0.0
        say(
            f"{call.name}({call.shapes:.60}): {call.count} calls, {share:.0%} of the time outside of what the library does well"
        )
        subject = _named(open_module(str((source or folder) / call.task), Wanted()), call)
        own = settings.model_copy(update={"minutes": share_of_time, "resume": (place / "events.jsonl").exists()})
        try:
            finished = search(subject, place, own)
        except BottegaError as error:
            yield Searched(call, None, place, str(error))
            continue
        found = Searched(call, finished.result, place)
        say(found.text)
        if finished.result.outcome == "faster":
            done.add(call.key)
        yield found


def optimize_capture(source: Path, settings: OptimizeSettings) -> tuple[Path, list[Searched]]:
    """`bottega optimize CAPTURE`: the kinds of calls of a program, the costliest first."""
    folder = settings.out if settings.out is not None else source
    say = (lambda text: None) if settings.quiet else lambda text: say_line(text, err=True)
    return folder, list(search_costliest(read_capture(source), folder, settings, say, source=source))


def open_model(reference: str, wanted: Wanted, device: str) -> tuple[nn.Module, Arguments]:
    """A model with inputs, from a file or from `hf:NAME_OR_FOLDER`. The user's code runs in this process, as in the user's own program."""
    require_device(device)
    if reference.startswith(HUGGING_FACE):
        return _from_hugging_face(reference.removeprefix(HUGGING_FACE), wanted, device)
    task = import_source(open_module(reference, wanted).task.source, "task")
    initial = read_arguments(task.get_init_inputs(), task.Model)
    model = task.Model(*initial.positional, **initial.keywords).to(device)
    given = read_arguments(task.get_inputs(), model.forward)
    return model, _moved(given, device)


def _from_hugging_face(name: str, wanted: Wanted, device: str) -> tuple[nn.Module, Arguments]:
    """Weights where a local folder has some, in their own type as transformers loads them; random ones else."""
    try:
        transformers: Any = importlib.import_module("transformers")
        config = transformers.AutoConfig.from_pretrained(name)
    except ImportError:
        raise UsageError(f"{HUGGING_FACE}{name}: needs the package transformers") from None
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"{HUGGING_FACE}{name}: {first}; name a folder with a config.json, or a model that is in the cache"
        ) from None
    kind = (getattr(config, "architectures", None) or [""])[0]
    factory = getattr(transformers, kind, None) or transformers.AutoModel
    dtype = getattr(torch, wanted.dtype or ("float32" if device == "cpu" else "bfloat16"))
    weighted = any(Path(name).glob("*.safetensors"))
    if weighted and not wanted.dtype:
        dtype = getattr(torch, str(getattr(config, "dtype", None) or dtype).removeprefix("torch."))
    if weighted:
        model = factory.from_pretrained(name, dtype=dtype)
    else:
        model = (factory._from_config if kind else factory.from_config)(config, dtype=dtype)
    model = model.eval().to(device)
    for part in model.modules():  # a decoder may have a configuration of its own
        if hasattr(getattr(part, "config", None), "use_cache"):
            part.config.use_cache = False  # a cache is no tensor, and a module that is given one cannot be captured
    if wanted.inputs:
        space = {"torch": torch, "config": config}
        asked = read_arguments(eval(f"_({wanted.inputs})", {**space, "_": _call}), model.forward)
        return model, _moved(asked, device, dtype)
    text = getattr(config, "get_text_config", lambda: config)()
    if getattr(text, "vocab_size", None):
        length = min(TOKENS, getattr(text, "max_position_embeddings", None) or TOKENS)
        given: dict[str, Any] = {"input_ids": torch.randint(0, text.vocab_size, (1, length))}
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = torch.randint(0, text.vocab_size, (1, length))
    elif getattr(config, "image_size", None):
        size = config.image_size
        height, width = size if isinstance(size, tuple | list) else (size, size)
        given = {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), height, width, dtype=dtype)}
    else:
        raise UsageError(f"{HUGGING_FACE}{name}: say how to call it with --inputs")
    return model, _moved(Arguments((), given), device)


def _call(*arguments: Any, **options: Any) -> Any:
    if len(arguments) == 1 and not options and isinstance(arguments[0], dict):
        return arguments[0]  # by name, or the one argument
    return [list(arguments), options] if options else list(arguments)


def _moved(given: Arguments, device: str, dtype: torch.dtype = torch.float32) -> Arguments:
    """On the device, and what is float32 in this data type."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, dtype if value.dtype == torch.float32 else value.dtype)

    return Arguments(*torch.utils._pytree.tree_map(moved, tuple(given)))


def _any_layer(load: Callable[..., nn.Module]) -> Callable[[nn.Module], nn.Module]:
    return lambda module: load(module, ignore=ignorable(module))


def _named(subject: ModuleTask, call: CapturedCall) -> ModuleTask:
    return ModuleTask(subject.original, subject.task, call.name)


def _inside(call: CapturedCall, found: set[str], calls: Sequence[CapturedCall]) -> bool:
    """Whether everything that calls it is found already."""
    above = {each.key: each.inside for each in calls}
    pending, seen = list(call.inside), set[str]()
    while pending:
        key = pending.pop()
        if key in found:
            return True
        if key not in seen:
            seen.add(key)
            pending += above.get(key, [])
    return False
