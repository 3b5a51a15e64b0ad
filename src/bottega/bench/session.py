"""One session of a benchmark run: starts or resumes it, does what is left, and writes its record once it is complete.

The same request in the same folder goes on where the last session ended, however that ended; another request is refused, with what differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.backbone.client import Client
from bottega.bench.attempt import BenchAttempt, BenchRun
from bottega.bench.candidates import CandidateSet, read_candidates
from bottega.bench.caveats import SAME_MACHINE
from bottega.bench.drafted_source import DraftedSource, DraftsOnce
from bottega.bench.kernel_sources import CandidateSource, ModelSource
from bottega.bench.known_verdicts import read_known, run_name
from bottega.bench.leaderboard import disagreements, lost_kernels, read_record, write_record
from bottega.bench.run_directory import BENCH, LEADERBOARD, LIBRARY, Recorder, begin, read_head, read_run
from bottega.bench.runner import BenchRunner, KernelSource, OnEvent
from bottega.bench.settings import STARTER, BenchSettings
from bottega.bench.shard import Shard, fingerprint_of
from bottega.bench.task_set import TaskSet, load_task_set
from bottega.core.draft import DraftSource
from bottega.core.errors import UsageError
from bottega.core.skill import Skill
from bottega.episodes.backbone_defaults import NO_MODEL
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.phases import Phases, device_name, share_device
from bottega.episodes.request import differences
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.skills.library import Library, content_hash
from bottega.skills.shipped import add_starter
from bottega.skills.starter import starter_cards

NAMING_TASKS = ("tasks", "levels", "only", "limit")
"""How tasks were named says nothing where they are the same ones. Where the candidates lay says nothing either: they are compared
themselves."""

AT_ONCE, AT_ONCE_SHARED = 8, 256
"""Samples that are written at a time: by a model elsewhere, and by one that draws on the judge's own device, where drawing and judging
take turns, so that each turn is to do as much as it can."""


@dataclass(frozen=True)
class BenchFinished:
    run: BenchRun
    whole: bool
    ended: str
    """Why not all of it was done; empty where each task says so itself."""
    record: Path | None
    unmatched: tuple[str, ...] = ()


async def run_session(
    settings: BenchSettings,
    references: Sequence[str],
    folder: Path,
    devices: Sequence[str],
    open_client: Callable[[Sequence[BenchAttempt]], Client],
    log: Callable[[str], None],
    on_event: OnEvent = lambda event: None,
    command: str = "",
    host: DeviceHost = LOCAL,
    draft_source: DraftSource | None = None,
) -> BenchFinished:
    """Whatever can be found to be wrong is found before a folder is made. The client is told what earlier sessions spent; it is opened where a
    model is asked, and the draft source where drafts are."""
    settings = settings.resolved()
    if not (settings.asks_model or settings.candidates or settings.drafts):
        raise UsageError("without a model nobody writes kernels: give drafts=2, for two of the compiler's for each task")
    size = "cpu" if settings.judging.kind == "cpu" else "gpu"
    tasks = load_task_set(references, size, settings.levels, settings.only, settings.limit)
    candidates = read_candidates(settings.candidates, tasks.rows, tasks.tasks) if settings.candidates else None
    for line in (*tasks.repeated, *(() if candidates is None else (*candidates.unmatched, *candidates.outside))):
        log(line)
    async with contextlib.AsyncExitStack() as stack:
        head = {"command": command, **_head(settings, references, fingerprint_of(devices, host), tasks, candidates)}
        known = read_known(settings.known, settings.judging, head["fingerprint"], log)
        workers = host.workers_of_each(settings.workers, devices)
        shards = [Shard(device, settings.judging, workers, known, host) for device in devices]
        for shard in shards:
            stack.callback(shard.close)
        there = _is_there(folder, head)
        client = None
        phases = Phases()
        if settings.asks_model:
            prompts = Prompts(settings.style or "compact", settings.prompts)
            client = open_client(read_run(folder).attempts if there else ())
            stack.push_async_callback(client.close)
            phases = share_device(client, host)
            if _share_a_device(phases, devices):
                log(f"the model draws on {phases.device}, where kernels are judged: the two take turns")
        if not there:
            begin(folder, head)
        recorder = stack.enter_context(Recorder(folder, log))
        for row in tasks.rows:
            if row.id not in recorder.tasks:
                recorder.note(row)
        for attempt in recorder.attempts.values():
            if attempt.verdict is not None:
                known.keep(attempt.task, attempt.candidate, attempt.verdict)
        first: ModelSource | CandidateSource | None = None
        needs_facts = client is not None or settings.drafts
        facts = {device: await asyncio.to_thread(host.facts, device) for device in devices} if needs_facts else {}
        if candidates is not None:
            first = _readers(candidates, recorder)
        elif client is not None:
            library = _open_library(settings.library_name, folder)
            if library is not None:
                stack.enter_context(library)
            at_once = settings.at_once or AT_ONCE
            if settings.at_once is None and _share_a_device(phases, devices):
                at_once = min(AT_ONCE_SHARED, getattr(getattr(client, "backbone", None), "slots", AT_ONCE_SHARED))
            first = ModelSource(folder, settings, client, library, prompts, _budget(settings, recorder), at_once, phases, facts)
        work: KernelSource
        if settings.drafts:
            assert draft_source is not None
            work = DraftedSource(first, folder, settings, DraftsOnce(draft_source), phases, facts)
        else:
            assert first is not None
            work = first
        log(f"run in {folder}")
        run = BenchRunner(recorder, tasks.tasks, shards, work, on_event, phases)
        whole = await run.go()
        record = _record(recorder.run, log) if whole else None
        return BenchFinished(recorder.run, whole, run.ended, record, candidates.unmatched if candidates is not None else ())


def _budget(settings: BenchSettings, recorder: Recorder) -> RunBudget:
    attempts = recorder.attempts.values()
    return RunBudget(
        BudgetCaps(tokens=settings.tokens, money=settings.money),
        kernels=len(attempts),
        tokens=sum(attempt.prompt_tokens + attempt.output_tokens for attempt in attempts),
        money=sum(attempt.money for attempt in attempts),
    )


def _record(run: BenchRun, log: Callable[[str], None]) -> Path:
    """An earlier session's stands while there is nothing new to say."""
    if lost := lost_kernels(run):
        log(
            f"{run.folder}: {len(lost)} of its kernels were deleted or changed, such as {lost[0]}.py; its record does not hold without them"
        )
    with contextlib.suppress(UsageError):
        if not disagreements(run, read_record(run.folder)[1]):
            return run.folder / LEADERBOARD
    return write_record(run)


def _head(
    settings: BenchSettings,
    references: Sequence[str],
    fingerprint: dict[str, Any],
    tasks: TaskSet,
    candidates: CandidateSet | None,
) -> dict[str, Any]:
    """What a run is, as far as that is known before it begins."""
    facts: dict[str, Any] = {"model": settings.name or _model(settings), "tasks_digest": tasks.digest}
    hashes = {"tasks": tasks.digest}
    if candidates is not None:
        facts |= {"samples": len(candidates.numbers), "sample_numbers": list(candidates.numbers)}
        hashes["candidates"] = _digest_of(candidates)
    if settings.asks_model:
        facts["model_beside_the_judge"] = settings.in_process
        if settings.library_name:
            facts["library_facts"] = _library_facts(settings.library_name)
    return {
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": settings.terms(tuple(references), facts),
        "fingerprint": fingerprint,
        "hashes": hashes,
        "known": [run_name(folder) for folder in settings.known],
    }


def _is_there(folder: Path, head: dict[str, Any]) -> bool:
    """Whether the folder holds this very run; a `UsageError` where it holds another."""
    if not (folder / BENCH).exists():
        return False
    kept = read_head(folder)
    then, now = {"redraws": 0, "drafts": 0, **kept["settings"]}, head["settings"]  # runs from before there were such
    same_tasks = then.get("tasks_digest") == now["tasks_digest"]
    numbers = [" ".join(map(str, each.get("sample_numbers") or ["none"])) for each in (then, now)]
    if numbers[0] != numbers[1] and same_tasks:
        raise UsageError(
            f"{folder}: was begun with samples numbered {numbers[0]}, and kernels of samples numbered {numbers[1]} lie there now. "
            "Every task is to have as many: put back what was there, or give another --out"
        )
    named = {name: value for name, value in now.items() if name not in (NAMING_TASKS if same_tasks else ("tasks_digest",))}
    differing = differences(then, {name: value for name, value in named.items() if name != "candidates"})
    if not same_tasks:
        differing = [*differing, "the tasks are others: one was added, taken away, renamed or changed"]
    if differing:
        raise UsageError(
            f"{folder}: was begun with other settings: {'; '.join(differing)}. Go on with those, or give another --out"
        )
    moved = differences(kept["fingerprint"], {name: head["fingerprint"].get(name) for name in SAME_MACHINE})
    if moved:
        raise UsageError(
            f"{folder}: was begun on another machine or software: {'; '.join(moved)}. Times of both do not belong in one run"
        )
    return True


def _readers(candidates: CandidateSet, recorder: Recorder) -> CandidateSource:
    """A file that was changed since an earlier session judged it is an error."""
    for (task, sample, _), attempt in recorder.attempts.items():
        kernel = candidates.kernels.get(task, {}).get(sample) if attempt.author == "model" else None
        if kernel is not None and kernel.id != attempt.candidate:
            raise UsageError(
                f"{candidates.folder}: sample {candidates.numbers[sample]} of {recorder.tasks[task].name} is another kernel than the one "
                "that was judged; put that back, or give another --out"
            )
        if kernel is not None:
            recorder.keep_kernel(kernel.id, kernel.source)  # where somebody deleted it
    return CandidateSource(candidates.kernels)


def _share_a_device(phases: Phases, devices: Sequence[str]) -> bool:
    return any(device_name(device) == phases.device for device in devices)


def _open_library(named: str, folder: Path) -> Library | None:
    if not named:
        return None
    if named != STARTER:
        return Library(Path(named), create=False)
    library = Library(folder / LIBRARY)
    if library.version == 0:
        add_starter(library)
    return library


def _library_facts(named: str) -> dict[str, Any]:
    """Which cards there are: a library that has changed is another one."""
    if named == STARTER:
        return {"name": STARTER, **_cards(starter_cards())}
    with Library(Path(named), create=False) as library:
        return {"name": Path(named).name, "version": library.version, **_cards(library.cards())}


def _cards(cards: Iterable[Skill]) -> dict[str, Any]:
    lines = sorted(f"{card.name} {card.state} {content_hash(card)}" for card in cards)
    return {"cards": len(lines), "digest": hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]}


def _model(settings: BenchSettings) -> str:
    """Who wrote the kernels, in a few words: the model without where it lies, or the folder of candidates; and the compiler."""
    if not settings.drafts:
        return _first(settings)
    return "compiler" if settings.backbone == NO_MODEL else f"{_first(settings)} and the compiler"


def _first(settings: BenchSettings) -> str:
    if settings.backbone is None:
        return (settings.candidates or Path()).resolve().name
    form, _, rest = settings.backbone.partition(":")
    if form == "server":
        return rest.rpartition("@")[0]
    return rest.partition("?")[0].rstrip("/").rpartition("/")[2] if rest else form


def _digest_of(candidates: CandidateSet) -> str:
    lines = sorted(
        f"{task} {sample} {kernel.id}" for task, kernels in candidates.kernels.items() for sample, kernel in kernels.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
