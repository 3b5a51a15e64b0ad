"""One session of a benchmark run: starts or resumes it, does what is left, and writes its record once it is complete.

The same request in the same folder goes on where the last session ended, however that ended; another request is refused, with what differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.backbone.client import Client
from bottega.bench.attempt import BenchAttempt, BenchRun
from bottega.bench.candidates import CandidateSet, read_candidates
from bottega.bench.comparable import SAME_MACHINE
from bottega.bench.kernel_sources import CandidateSource, KernelSource, ModelSource
from bottega.bench.known_verdicts import read_known, run_name
from bottega.bench.leaderboard import disagreements, lost_kernels, read_record, write_record
from bottega.bench.run_directory import BENCH, LEADERBOARD, LIBRARY, Recorder, begin, read_head, read_run
from bottega.bench.runner import BenchRunner, OnEvent
from bottega.bench.settings import BenchSettings
from bottega.bench.shard import LOCAL, DeviceHost, Shard, fingerprint_of
from bottega.bench.task_set import TaskSet, load_task_set
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.skill import Skill
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.phases import Phases, device_name, share_device
from bottega.episodes.request import differences
from bottega.judge.machine import Workers
from bottega.skills.library import Library, content_hash
from bottega.skills.starter import starter_cards

STARTER = "starter"
NAMING_TASKS = ("tasks", "levels", "only", "limit")
"""How tasks were named says nothing where they are the same ones. Where the candidates lay says nothing either: they are compared
themselves."""

AT_ONCE, AT_ONCE_SHARED = 8, 256
"""Samples that are written at a time: by a model elsewhere, and by one that draws on the judge's own device, where drawing and judging
take turns, so that each turn is to do as much as it can."""


@dataclass(frozen=True)
class BenchRequest:
    settings: BenchSettings
    folder: Path
    devices: tuple[str, ...]
    workers: Workers = "auto"
    """Kernels that each device's judge builds and tries side by side."""
    at_once: int | None = None
    """Samples that are written at a time, for each device; as suits the model where nothing is said."""
    caps: BudgetCaps = field(default_factory=BudgetCaps)
    command: str = ""
    known: tuple[Path, ...] = ()
    """Folders of earlier runs whose verdicts stand for the same text on the same task."""
    host: DeviceHost = LOCAL
    """Where the devices are."""


@dataclass(frozen=True)
class BenchFinished:
    run: BenchRun
    whole: bool
    ended: str
    """Why not all of it was done; empty where each task says so itself."""
    record: Path | None
    unmatched: tuple[str, ...] = ()


async def run_session(
    request: BenchRequest,
    open_speaker: Callable[[Sequence[BenchAttempt]], Client],
    log: Callable[[str], None],
    on_event: OnEvent = lambda event: None,
) -> BenchFinished:
    """Whatever can be found to be wrong is found before a folder is made. The client is told what earlier sessions spent."""
    settings = request.settings
    size = "cpu" if settings.judging.kind == "cpu" else "gpu"
    tasks = load_task_set(settings.tasks, size, settings.levels, settings.only, settings.limit)
    candidates = read_candidates(Path(settings.candidates), tasks.rows, tasks.tasks) if settings.candidates else None
    if candidates is None and settings.writing is None:
        raise UsageError("nobody is there to write kernels: give --backbone, or --candidates with kernels that others wrote")
    for line in (*tasks.repeated, *(() if candidates is None else (*candidates.unmatched, *candidates.outside))):
        log(line)
    async with contextlib.AsyncExitStack() as stack:
        head = _head(request, tasks, candidates)
        known = read_known(request.known, settings.judging, head["fingerprint"], log)
        shards = [Shard(device, settings.judging, request.workers, known, request.host) for device in request.devices]
        for shard in shards:
            stack.callback(shard.close)
        there = _is_there(request.folder, head)
        client = prompts = None
        phases = Phases()
        if settings.writing is not None:
            prompts = Prompts(settings.writing.style, Path(settings.writing.prompts) if settings.writing.prompts else None)
            client = open_speaker(read_run(request.folder).attempts if there else ())
            stack.push_async_callback(client.close)
            phases = share_device(client) if request.host is LOCAL else Phases()
            if _share_a_device(phases, request):
                log(f"the model draws on {phases.device}, where kernels are judged: the two take turns")
        if not there:
            begin(request.folder, head)
        recorder = stack.enter_context(Recorder(request.folder, log))
        for row in tasks.rows:
            if row.id not in recorder.tasks:
                recorder.note(row)
        for attempt in recorder.attempts.values():
            if attempt.verdict is not None:
                known.keep(attempt.task, attempt.candidate, attempt.verdict)
        if candidates is not None:
            work: KernelSource = _readers(candidates, recorder)
        else:
            assert client is not None and prompts is not None
            facts = {device: await asyncio.to_thread(request.host.facts, device) for device in request.devices}
            work = _writers(request, recorder, client, prompts, phases, facts, stack)
        log(f"run in {request.folder}")
        run = BenchRunner(recorder, tasks.tasks, shards, work, on_event, phases)
        whole = await run.go()
        record = _record(recorder.run, log) if whole else None
        return BenchFinished(recorder.run, whole, run.ended, record, candidates.unmatched if candidates is not None else ())


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


def _head(request: BenchRequest, tasks: TaskSet, candidates: CandidateSet | None) -> dict[str, Any]:
    """What a run is, as far as that is known before it begins."""
    settings = request.settings
    facts: dict[str, Any] = {"model": settings.name or _model(settings), "tasks_digest": tasks.digest}
    hashes = {"tasks": tasks.digest}
    if candidates is not None:
        facts |= {"samples": len(candidates.numbers), "sample_numbers": list(candidates.numbers)}
        hashes["candidates"] = _digest_of(candidates)
    if settings.writing is not None:
        facts["model_beside_the_judge"] = settings.writing.in_process
    if settings.writing is not None and settings.writing.library:
        facts["library_facts"] = _library_facts(settings.writing.library)
    return {
        "command": request.command,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": settings.terms(facts),
        "fingerprint": fingerprint_of(request.devices, request.host),
        "hashes": hashes,
        "known": [run_name(folder) for folder in request.known],
    }


def _is_there(folder: Path, head: dict[str, Any]) -> bool:
    """Whether the folder holds this very run; a `UsageError` where it holds another."""
    if not (folder / BENCH).exists():
        return False
    kept = read_head(folder)
    then, now = {"redraws": 0, **kept["settings"]}, head["settings"]  # runs from before there were redraws
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
        kernel = candidates.kernels.get(task, {}).get(sample)
        if kernel is not None and kernel.id != attempt.candidate:
            raise UsageError(
                f"{candidates.folder}: sample {candidates.numbers[sample]} of {recorder.tasks[task].name} is another kernel than the one "
                "that was judged; put that back, or give another --out"
            )
        if kernel is not None:
            recorder.keep_kernel(kernel.id, kernel.source)  # where somebody deleted it
    return CandidateSource(candidates.kernels)


def _writers(
    request: BenchRequest, recorder: Recorder, client: Client, prompts: Prompts, phases: Phases, facts: dict[str, DeviceFacts],
    stack: contextlib.AsyncExitStack,
) -> ModelSource:  # fmt: skip
    settings = request.settings
    assert settings.writing is not None
    library = _open_library(settings.writing.library, request.folder)
    if library is not None:
        stack.enter_context(library)
    attempts = recorder.attempts.values()
    budget = RunBudget(
        request.caps,
        kernels=len(attempts),
        tokens=sum(attempt.prompt_tokens + attempt.output_tokens for attempt in attempts),
        money=sum(attempt.money for attempt in attempts),
    )
    usual = AT_ONCE
    if _share_a_device(phases, request):
        usual = min(AT_ONCE_SHARED, getattr(getattr(client, "backbone", None), "slots", AT_ONCE_SHARED))
    at_once = request.at_once or usual
    return ModelSource(
        request.folder, settings.writing, settings.judging, client, library, prompts, budget, at_once, phases, facts
    )


def _share_a_device(phases: Phases, request: BenchRequest) -> bool:
    return any(device_name(device) == phases.device for device in request.devices)


def _open_library(named: str, folder: Path) -> Library | None:
    if not named:
        return None
    if named != STARTER:
        return Library(Path(named), create=False)
    library = Library(folder / LIBRARY)
    if library.version == 0:
        library.add_many(starter_cards(), on_conflict="skip", note="starter set")
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
    """Who wrote the kernels, in a word: the model without where it lies, or the folder of candidates."""
    if settings.writing is None:
        return Path(settings.candidates).resolve().name
    form, _, rest = settings.writing.backbone.partition(":")
    if form == "server":
        return rest.rpartition("@")[0]
    return rest.partition("?")[0].rstrip("/").rpartition("/")[2] if rest else form


def _digest_of(candidates: CandidateSet) -> str:
    lines = sorted(
        f"{task} {sample} {kernel.id}" for task, kernels in candidates.kernels.items() for sample, kernel in kernels.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
