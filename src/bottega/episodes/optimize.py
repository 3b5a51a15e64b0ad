"""One module from its file to a finished run directory: bring it up, search, judge the best again, hand over.

Whatever ends the search (a budget, a signal, a backbone that dies) ends only the search: what was found by then is judged and handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.backbone.client import Client
from bottega.core.draft import DraftSource
from bottega.core.episode import Episode
from bottega.core.errors import BottegaError, BudgetError, LibraryError, TaskError
from bottega.core.event import RunEnded, RunStarted
from bottega.episodes.attempts import NOT_JUDGED, attempts_of, seconds_of
from bottega.episodes.backbone_defaults import NO_MODEL
from bottega.episodes.budget import RunBudget
from bottega.episodes.context import CandidateMeasure, EpisodeContext
from bottega.episodes.delivery.final import choose_final
from bottega.episodes.delivery.hand_over import hand_over
from bottega.episodes.delivery.result import Result
from bottega.episodes.episode import run_episode, use_of
from bottega.episodes.journal import EpisodeJournal, Listener
from bottega.episodes.knob_memory import FILE as KNOBS
from bottega.episodes.knob_memory import KnobMemory
from bottega.episodes.phases import share_device
from bottega.episodes.request import OptimizeRequest
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.baselines import with_eager
from bottega.judge.device_host import LOCAL, DeviceHost, DeviceJudge
from bottega.judge.trusted.judge import TrustedJudge
from bottega.skills.gate import Rules
from bottega.skills.library import Library
from bottega.tasks.module import ModuleTask


@dataclass(frozen=True)
class OptimizeFinished:
    result: Result
    folder: Path
    attempts: int
    interrupted: bool
    error: str


@dataclass
class Stop:
    """Asked for by a signal: once to end the search, a second time to end everything."""

    search: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    def ask(self) -> None:
        self.asked += 1
        self.search.set()


async def optimize(
    request: OptimizeRequest,
    journal: EpisodeJournal,
    open_client: Callable[[], Client],
    library: Library | None,
    stop: Stop,
    listener: Listener | None = None,
    draft_source: DraftSource | None = None,
    host: DeviceHost = LOCAL,
) -> OptimizeFinished | None:
    """None when it was stopped before there was anything to report. Errors before the first kernel are raised, the rest is reported."""
    settings, subject = request.settings, request.subject
    episode = subject.task.id
    prompts = Prompts(settings.style, request.prompts)
    client: Client | None = None
    loading = ThreadPoolExecutor(1)
    opening: Future[Client] | None = None
    options: dict[str, Any] = {"baselines": with_eager((settings.baseline,)), "quick": settings.quick, **request.judging}
    try:
        with (
            host.judge(settings.device, workers=request.workers, **options) as judge,
            _measuring(request, host) as measuring,
        ):
            opening = loading.submit(open_client)  # beside the judge: both take seconds
            budget = RunBudget(request.caps, earlier_seconds=seconds_of(journal.events))  # trying the module counts
            trying = asyncio.to_thread(_started, request, journal, judge, host)
            started = await _unless_stopped(stop, trying, budget.seconds_left())
            client = await _unless_stopped(stop, asyncio.wrap_future(opening))
            request = _as_it_can_be_judged(request, started)
            settings = request.settings
            if listener is not None:
                for event in journal.events:
                    listener(event)
                journal.listeners.append(listener)
            journal.write(started)
            context = EpisodeContext(
                client,
                judge,
                library,
                prompts,
                host.facts(settings.device),
                journal,
                budget,
                draft_source,
                share_device(client, host),
                measuring,
                KnobMemory(library.folder / KNOBS if library is not None else None),
            )
            ended, error, trace = await _search(context, subject, settings, stop, request.backbone != NO_MODEL)
    except _Stopped:
        return None
    except TimeoutError:
        raise TaskError(
            f"{subject.task.label}: trying it in the sandbox was not over after {request.caps.seconds:g} seconds, all that `minutes` allows; "
            "give it more of them, or smaller inputs"
        ) from None
    finally:
        await asyncio.to_thread(loading.shutdown)  # the program would end in the middle of it, and abort
        if opening is not None and not opening.cancelled() and opening.exception() is None:
            with contextlib.suppress(Exception):
                await opening.result().close()
    attempts = [attempt for attempt in attempts_of(journal.events, episode) if attempt.outcome != NOT_JUDGED]
    if not attempts:
        if error is not None:
            _ended(journal, ended, error, trace)
            raise error
        if stop.asked:
            return None
    result = await _delivered(request, journal, stop, ended, str(error or ""), host)
    if result is None:
        return None
    _ended(journal, ended, error, trace, result)
    return OptimizeFinished(result, journal.folder, len(attempts), bool(stop.asked), str(error or ""))


def _measuring(request: OptimizeRequest, host: DeviceHost) -> contextlib.AbstractContextManager[CandidateMeasure | None]:
    """The measuring mode on this machine, for a module as it was built. Elsewhere the judge measures knobs, which takes longer. It starts no
    process before it is asked."""
    settings = request.settings
    if not settings.knobs or host is not LOCAL or request.training is not None:
        return contextlib.nullcontext()
    return TrustedJudge(settings.device, workers=1, precision=settings.precision, require_sandbox=True)


class _Stopped(Exception):
    """A signal came while there was nothing to report yet."""


async def _unless_stopped(stop: Stop, work: Any, seconds: float | None = None) -> Any:
    """The work's result, `_Stopped` as soon as a signal comes, or TimeoutError. A thread under way is left behind: its judge is closed under it."""
    task, ring = asyncio.ensure_future(work), asyncio.ensure_future(stop.search.wait())
    try:
        await asyncio.wait({task, ring}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _Stopped if ring.done() else TimeoutError
        return task.result()
    finally:
        task.cancel()
        ring.cancel()


def _started(request: OptimizeRequest, journal: EpisodeJournal, judge: DeviceJudge, host: DeviceHost) -> RunStarted:
    """Whether the module can be judged at all is found before anything is spent; a run that is resumed knows it already."""
    device = request.settings.device
    earlier = next((event for event in journal.events if isinstance(event, RunStarted)), None)
    if earlier is not None:
        return RunStarted(request.command, request.terms(), earlier.fingerprint)
    try:
        report = judge.fitness(request.subject.task)
    except TaskError as error:
        if "ModuleNotFoundError" in str(error) or "ImportError" in str(error):
            raise TaskError(
                f"{error}; the sandbox sees installed packages, this file, and Python modules in its folder or package"
            ) from None
        raise
    unavailable = [{"name": f"baseline {name}", "detail": f"it {why}"} for name, why in report["unavailable"].items()]
    found = {**host.fingerprint(device), "facts": report["facts"], "problems": [*report["problems"], *unavailable]}
    found["unavailable"] = report["unavailable"]
    return RunStarted(request.command, request.terms(), found)


def _as_it_can_be_judged(request: OptimizeRequest, started: RunStarted) -> OptimizeRequest:
    """Where what was to be beaten cannot be run, the user would run the module as it is: then that is to be beaten, and the run says so."""
    settings = request.settings
    if settings.baseline not in started.fingerprint.get("unavailable", {}):
        return request
    others = tuple(name for name in settings.baselines if name != "eager")
    return replace(request, settings=replace(settings, baselines=("eager", *others)))


async def _search(
    context: EpisodeContext, subject: ModuleTask, settings: EpisodeSettings, stop: Stop, model: bool
) -> tuple[str, BottegaError | None, str]:
    """Why it ended, and the error when that was one. A step under way is cut by time and by a signal, and by nothing else."""
    run = asyncio.ensure_future(run_episode(context, subject.task, settings, model=model))
    ring = asyncio.ensure_future(stop.search.wait())
    await asyncio.wait({run, ring}, timeout=context.budget.seconds_left(), return_when=asyncio.FIRST_COMPLETED)
    if not run.done():
        run.cancel()
        await asyncio.wait({run})
    ring.cancel()
    if run.cancelled():
        return ("interrupted" if stop.asked else f"the budget of {context.budget.caps.seconds:g} seconds is spent"), None, ""
    error = run.exception()
    if error is None:
        _remember(context, run.result(), settings)
        return run.result().ended, None, ""
    if isinstance(error, BudgetError):
        return str(error), None, ""
    trace = "".join(traceback.format_exception(error))[-4000:]
    if isinstance(error, BottegaError):
        return "an error", error, trace
    return "an error", BottegaError(f"an error in Bottega itself, please report it: {type(error).__name__}: {error}"), trace


def _remember(context: EpisodeContext, episode: Episode, settings: EpisodeSettings) -> None:
    """Tell the library how its skills fared. A library that cannot be written ends no run."""
    if context.library is None:
        return
    begun = next((event.at for event in context.journal.events if isinstance(event, RunStarted)), 0.0)
    with contextlib.suppress(LibraryError):
        context.library.uses.record(
            use_of(episode, f"{context.journal.folder.name}@{begun:.3f}", Rules(baseline=settings.baseline))
        )


async def _delivered(
    request: OptimizeRequest, journal: EpisodeJournal, stop: Stop, ended: str, error: str, host: DeviceHost
) -> Result | None:
    settings, subject = request.settings, request.subject
    episode = subject.task.id
    attempts = attempts_of(journal.events, episode)
    with host.judge(settings.device, baselines=settings.judged_against, **request.judging) as judge:
        work = asyncio.ensure_future(
            choose_final(judge, journal, episode, subject, attempts, settings, request.caps.final_seconds)
        )
        while not work.done():
            await asyncio.wait({work}, timeout=0.2)
            if stop.asked > 1:
                work.cancel()
                return None
        settled = work.result()
    check = f"bottega check {shlex.quote(str(journal.folder.resolve()))}"
    given = (episode, subject, settings, request.training, settled, ended, error, check)
    return hand_over(journal.folder, journal.events, *given)


def _ended(journal: EpisodeJournal, ended: str, error: BottegaError | None, trace: str, result: Result | None = None) -> None:
    facts: dict[str, Any] = {"error": str(error), "trace": trace} if error is not None else {}
    if result is not None:
        facts |= {"outcome": result.outcome, "node": result.node, "claim": result.model_dump()["claim"]}
    journal.write(RunEnded(ended, facts))
