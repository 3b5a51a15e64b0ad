"""One run of `optimize`, from the command line or from Python: settings and a module in, a finished run out."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bottega.agents.answers.pipeline import policy_for
from bottega.app.device_host import device_host
from bottega.app.display import Display, display_for
from bottega.app.interrupts import hearing_signals
from bottega.app.optimize_display import OptimizeProgress
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import command_line
from bottega.backbone.chat import Usage
from bottega.backbone.client import ChatClient, Client
from bottega.backbone.scripted import ScriptedChat
from bottega.core.event import Event
from bottega.core.setting_kinds import MODES
from bottega.core.settings import SettingsLayer, read_settings
from bottega.episodes.attempts import totals_of
from bottega.episodes.backbone_defaults import (
    NO_MODEL,
    answer_tokens,
    draft_count,
    drafting_seconds,
    knob_count,
    likeliest_first,
    prompt_style,
    resample_count,
    strategy_for,
    temperature_for,
)
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.check import ClaimCheck, compared, open_result
from bottega.episodes.delivery.result import OPTIMIZED, Result
from bottega.episodes.request import OptimizeRequest, opened_run
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.baselines import parse_baselines
from bottega.judge.device_host import DeviceHost
from bottega.judge.judge import Judge
from bottega.languages import choose_language
from bottega.tasks.module import ModuleTask

if TYPE_CHECKING:
    from torch import nn

    from bottega.episodes.optimize import OptimizeFinished, Stop

REPEATS = 3
"""Answers in a row that bring no new text end a search: a small model says the same again and again."""


def settings_for(device: str, given: Mapping[str, Any]) -> OptimizeSettings:
    """The embedded model was trained on files that people wrote and cannot read a module that was captured: drafts alone, unless one is named."""
    layers = [SettingsLayer("optimize()", {"device": device, **given})]
    if "backbone" not in given:
        layers.insert(0, SettingsLayer("optimize()", {"backbone": NO_MODEL}))
    return read_settings(OptimizeSettings, layers)


def request_for(settings: OptimizeSettings, subject: ModuleTask) -> OptimizeRequest:
    """What the user did not say is chosen by the backbone and the device."""
    backbone, device = settings.backbone, settings.device
    skills = settings.skills and backbone != NO_MODEL
    style = prompt_style(backbone, settings.style)
    strategy = strategy_for(backbone, settings.strategy)
    measured = not (settings.server or settings.cluster) and MODES[settings.mode] is None
    return OptimizeRequest(
        subject=subject,
        settings=EpisodeSettings(
            device=device,
            language=choose_language(settings.language, device),
            baselines=parse_baselines(settings.baseline),
            precision=settings.precision,
            strategy=strategy,
            knobs=knob_count(strategy, device, measured, settings.knobs),
            exploration=settings.exploration,
            instructions=settings.instructions or ("list" if style == "terse" else "model"),
            turns=settings.turns,
            kept=settings.kept,
            samples=settings.samples,
            steps=settings.steps,
            skill_files=str(settings.skill_files.resolve()) if settings.skill_files else "",
            schemes=settings.schemes if skills else 0,
            select="selector" if skills else "none",
            unproved=not settings.proved_only,
            temperature=temperature_for(backbone, settings.samples * settings.turns, settings.temperature),
            likeliest_first=likeliest_first(backbone, settings.temperature),
            max_tokens=answer_tokens(backbone, settings.max_tokens),
            stop=settings.stop,
            style=style,
            drafts=draft_count(backbone, settings.kernels, settings.drafts),
            answers=policy_for(resample_count(style, settings.resamples)),
            summaries=settings.summaries if skills else 0,
            seed=settings.seed,
            stopping=Stopping(target=settings.target, patience=settings.patience, repeats=REPEATS),
        ),
        backbone=backbone,
        caps=BudgetCaps(settings.kernels, settings.tokens, settings.money, settings.minutes and settings.minutes * 60),
        training=MODES[settings.mode],
        prompts=settings.prompts,
        library=str(_library_folder(settings.library)) if skills else "",
        workers=settings.workers,
        command=command_line(),
    )


async def run_request(
    request: OptimizeRequest, folder: Path, settings: OptimizeSettings, display: Display, stop: Stop, host: DeviceHost
) -> OptimizeFinished | None:
    """None when it was stopped before there was anything to report."""
    from bottega.data.drafts import CompilerDrafts
    from bottega.episodes.optimize import optimize
    from bottega.skills.default_library import open_library

    with contextlib.ExitStack() as stack:
        cards = stack.enter_context(open_library(settings.library)) if request.library else None
        journal = stack.enter_context(opened_run(folder, request, settings.resume))
        stack.enter_context(display)
        loaded = "" if request.backbone == NO_MODEL else "the model is loaded and "
        display.say(f"run in {folder}; {loaded}the module is tried in the sandbox")
        return await optimize(
            request,
            journal,
            lambda: _client(request, settings, journal.events),
            cards,
            stop,
            display.on_event,
            CompilerDrafts(drafting_seconds(request.caps.seconds)),
            host,
        )


def _client(request: OptimizeRequest, settings: OptimizeSettings, events: Sequence[Event]) -> Client:
    if request.backbone == NO_MODEL:
        return ChatClient(ScriptedChat(()))
    earlier = totals_of(events)
    usage = Usage(earlier.prompt_tokens, earlier.output_tokens, earlier.cost, bool(earlier.estimated))
    return settings.client(request.backbone, usage, earlier.calls)


def _library_folder(given: Path | None) -> Path:
    from bottega.skills.default_library import default_folder

    return (given or default_folder()).resolve()


def search(
    subject: ModuleTask, folder: Path, settings: OptimizeSettings, final_seconds: float | None = None
) -> OptimizeFinished:
    """In a thread with an event loop of its own, so that a script, a notebook or another search may start it. Ctrl-C ends it with the best so
    far, a second time at once; `KeyboardInterrupt` where there was nothing to report yet. `final_seconds`: after the search, for the last
    verdicts."""
    from bottega.episodes.optimize import Stop

    request = request_for(settings, subject)
    request = replace(request, caps=replace(request.caps, final_seconds=final_seconds))
    wanted = request.settings
    model, drafted, knobs = request.backbone != NO_MODEL, bool(wanted.drafts), bool(wanted.knobs)
    progress = OptimizeProgress(request.caps, wanted.baseline, model, drafted, knobs)
    display = display_for(progress, f"optimizing {subject.title}", settings.quiet)
    stop, loops = Stop(), list[asyncio.AbstractEventLoop]()
    signals = 0

    async def work() -> OptimizeFinished | None:
        loops.append(asyncio.get_running_loop())
        return await run_request(request, folder, settings, display, stop, host)

    def stop_by_signal() -> bool:
        nonlocal signals
        signals += 1
        loops[0].call_soon_threadsafe(stop.ask) if loops else stop.ask()
        first = "stopping with the best so far, which is judged again; once more to stop at once"
        display.say(first if signals == 1 else "stopping")
        return signals == 1

    with (
        device_host(settings.server, settings.cluster) as host,
        script_left_alone(),
        hearing_signals(stop_by_signal),
        ThreadPoolExecutor(1, "bottega.optimize") as pool,
    ):
        running = pool.submit(lambda: asyncio.run(work()))
        while not running.done():
            wait([running], 0.2)  # a signal is heard between two waits
    finished = running.result()
    if finished is None:
        raise KeyboardInterrupt
    return finished


@contextlib.contextmanager
def script_left_alone() -> Iterator[None]:
    """Processes that multiprocessing starts would import the user's script, and run it once more: here they do not know it."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


@dataclass(frozen=True)
class FinishedRun:
    """What a search left, called as the module."""

    module: nn.Module
    """The faster module; it shares the original's parameters."""
    folder: Path

    @property
    def report(self) -> str:
        """How it came about, as Markdown."""
        return (self.folder / "report.md").read_text(encoding="utf-8")

    def save(self, folder: str | Path) -> Path:
        """A copy of the run directory. What is delivered in it needs torch, and no Bottega."""
        return Path(shutil.copytree(self.folder, folder))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.module(*arguments, **options)


def loaded(folder: Path, result: Result) -> Any:
    """The delivered file's `load`."""
    from bottega.episodes.delivery.end_to_end import imported

    return getattr(imported(folder / OPTIMIZED), result.load)


def check(folder: Path, result: Result) -> ClaimCheck:
    """Judge a finished result again, from its files alone."""
    opened = open_result(folder)
    judging: dict[str, Any] = {"precision": result.precision, "training": result.training}
    with Judge(result.device, baselines=tuple(result.baselines), **judging) as judge:
        own_code = result.own_code and opened.result.seal == result.seal and not opened.changed
        verdict = judge.judge(opened.subject.task, opened.candidate, own_code=own_code)
        return compared(opened, verdict, result.device)
