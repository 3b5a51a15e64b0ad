"""One sitting at a run: begin it or go on with it, do what is left, and write its record once it is whole.

The same wish in the same folder goes on where the last sitting ended, however that ended; another wish is refused, with what differs.
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
from bottega.backbone.client import Speaker
from bottega.bench.attempt import Attempt, BenchRun
from bottega.bench.comparable import SAME_MACHINE
from bottega.bench.foreign import Foreign, read_candidates
from bottega.bench.known import read_known, run_name
from bottega.bench.leaderboard import disagreements, lost_kernels, read_record, write_record
from bottega.bench.run_directory import BENCH, LEADERBOARD, LIBRARY, Recorder, begin, read_head, read_run
from bottega.bench.running import Run, Watch
from bottega.bench.settings import BenchSettings
from bottega.bench.shard import Shard, fingerprint_of
from bottega.bench.task_set import TaskSet, load_task_set
from bottega.bench.work import Readers, Work, Writers
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.skill import Skill
from bottega.episodes.budget import Budget, Caps
from bottega.episodes.phases import Phases, device_name, share_device
from bottega.episodes.request import differences
from bottega.judge.device_facts import device_facts
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
class Wish:
    settings: BenchSettings
    folder: Path
    devices: tuple[str, ...]
    workers: Workers = "auto"
    """Kernels that each device's judge builds and tries side by side."""
    at_once: int | None = None
    """Samples that are written at a time, for each device; as suits the model where nothing is said."""
    caps: Caps = field(default_factory=Caps)
    command: str = ""
    known: tuple[Path, ...] = ()
    """Folders of earlier runs whose verdicts stand for the same text on the same task."""


@dataclass(frozen=True)
class Finished:
    run: BenchRun
    whole: bool
    ended: str
    """Why not all of it was done; empty where each task says so itself."""
    record: Path | None
    unmatched: tuple[str, ...] = ()


async def sit(
    wish: Wish,
    open_speaker: Callable[[Sequence[Attempt]], Speaker],
    say: Callable[[str], None],
    watch: Watch = lambda event: None,
) -> Finished:
    """Whatever can be found to be wrong is found before a folder is made. The speaker is told what earlier sittings spent."""
    settings = wish.settings
    size = "cpu" if settings.judging.kind == "cpu" else "gpu"
    tasks = load_task_set(settings.tasks, size, settings.levels, settings.only, settings.limit)
    foreign = read_candidates(Path(settings.candidates), tasks.rows, tasks.tasks) if settings.candidates else None
    if foreign is None and settings.writing is None:
        raise UsageError("nobody is there to write kernels: give --backbone, or --candidates with kernels that others wrote")
    for line in (*tasks.repeated, *(() if foreign is None else (*foreign.unmatched, *foreign.outside))):
        say(line)
    async with contextlib.AsyncExitStack() as stack:
        head = _head(wish, tasks, foreign)
        known = read_known(wish.known, settings.judging, head["fingerprint"], say)
        shards = [Shard(device, settings.judging, wish.workers, known) for device in wish.devices]
        for shard in shards:
            stack.callback(shard.close)
        there = _is_there(wish.folder, head)
        speaker = prompts = None
        phases = Phases()
        if settings.writing is not None:
            prompts = Prompts(settings.writing.style, Path(settings.writing.prompts) if settings.writing.prompts else None)
            speaker = open_speaker(read_run(wish.folder).attempts if there else ())
            stack.push_async_callback(speaker.close)
            phases = share_device(speaker)
            if _share_a_device(phases, wish):
                say(f"the model draws on {phases.device}, where kernels are judged: the two take turns")
        if not there:
            begin(wish.folder, head)
        recorder = stack.enter_context(Recorder(wish.folder, say))
        for row in tasks.rows:
            if row.id not in recorder.tasks:
                recorder.note(row)
        for attempt in recorder.attempts.values():
            if attempt.verdict is not None:
                known.keep(attempt.task, attempt.candidate, attempt.verdict)
        if foreign is not None:
            work: Work = _readers(foreign, recorder)
        else:
            assert speaker is not None and prompts is not None
            facts = {device: await asyncio.to_thread(device_facts, device) for device in wish.devices}
            work = _writers(wish, recorder, speaker, prompts, phases, facts, stack)
        say(f"run in {wish.folder}")
        run = Run(recorder, tasks.tasks, shards, work, watch, phases)
        whole = await run.go()
        record = _record(recorder.run, say) if whole else None
        return Finished(recorder.run, whole, run.ended, record, foreign.unmatched if foreign is not None else ())


def _record(run: BenchRun, say: Callable[[str], None]) -> Path:
    """An earlier sitting's stands while there is nothing new to say."""
    if lost := lost_kernels(run):
        say(
            f"{run.folder}: {len(lost)} of its kernels were deleted or changed, such as {lost[0]}.py; its record does not hold without them"
        )
    with contextlib.suppress(UsageError):
        if not disagreements(run, read_record(run.folder)[1]):
            return run.folder / LEADERBOARD
    return write_record(run)


def _head(wish: Wish, tasks: TaskSet, foreign: Foreign | None) -> dict[str, Any]:
    """What a run is, as far as that is known before it begins."""
    settings = wish.settings
    facts: dict[str, Any] = {"model": settings.name or _model(settings), "tasks_digest": tasks.digest}
    hashes = {"tasks": tasks.digest}
    if foreign is not None:
        facts |= {"samples": len(foreign.numbers), "sample_numbers": list(foreign.numbers)}
        hashes["candidates"] = _digest_of(foreign)
    if settings.writing is not None:
        facts["model_beside_the_judge"] = settings.writing.in_process
    if settings.writing is not None and settings.writing.library:
        facts["library_facts"] = _library_facts(settings.writing.library)
    return {
        "command": wish.command,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": settings.terms(facts),
        "fingerprint": fingerprint_of(wish.devices),
        "hashes": hashes,
        "known": [run_name(folder) for folder in wish.known],
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


def _readers(foreign: Foreign, recorder: Recorder) -> Readers:
    """A file that was changed since an earlier sitting judged it is an error."""
    for (task, sample, _), attempt in recorder.attempts.items():
        kernel = foreign.kernels.get(task, {}).get(sample)
        if kernel is not None and kernel.id != attempt.candidate:
            raise UsageError(
                f"{foreign.folder}: sample {foreign.numbers[sample]} of {recorder.tasks[task].name} is another kernel than the one "
                "that was judged; put that back, or give another --out"
            )
        if kernel is not None:
            recorder.keep_kernel(kernel.id, kernel.source)  # where somebody deleted it
    return Readers(foreign.kernels)


def _writers(
    wish: Wish, recorder: Recorder, speaker: Speaker, prompts: Prompts, phases: Phases, facts: dict[str, DeviceFacts],
    stack: contextlib.AsyncExitStack,
) -> Writers:  # fmt: skip
    settings = wish.settings
    assert settings.writing is not None
    library = _open_library(settings.writing.library, wish.folder)
    if library is not None:
        stack.enter_context(library)
    attempts = recorder.attempts.values()
    budget = Budget(
        wish.caps,
        kernels=len(attempts),
        tokens=sum(attempt.prompt_tokens + attempt.output_tokens for attempt in attempts),
        money=sum(attempt.money for attempt in attempts),
    )
    usual = AT_ONCE
    if _share_a_device(phases, wish):
        usual = min(AT_ONCE_SHARED, getattr(getattr(speaker, "backbone", None), "slots", AT_ONCE_SHARED))
    at_once = wish.at_once or usual
    return Writers(wish.folder, settings.writing, settings.judging, speaker, library, prompts, budget, at_once, phases, facts)


def _share_a_device(phases: Phases, wish: Wish) -> bool:
    return any(device_name(device) == phases.device for device in wish.devices)


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


def _digest_of(foreign: Foreign) -> str:
    lines = sorted(
        f"{task} {sample} {kernel.id}" for task, kernels in foreign.kernels.items() for sample, kernel in kernels.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def next_folder(parent: Path) -> Path:
    """`bottega-bench-1`, `-2`, …: the first that is free."""
    number = 1
    while (parent / f"bottega-bench-{number}").exists():
        number += 1
    return parent / f"bottega-bench-{number}"
