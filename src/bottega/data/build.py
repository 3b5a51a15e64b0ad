"""A cold start from end to end: judge what teachers write, prove cards, make examples, and write them with their card.

Either stage can be run alone. The folder is all there is: `judged.db` and `library/` are the material, the rest is made from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.data.audit import FACT as AUDIT
from bottega.data.audit import Audit, run_audit
from bottega.data.callgraphs import Tell, callgraphs_of
from bottega.data.cards import CardIndex
from bottega.data.data_card import card_of, write_card
from bottega.data.data_files import write_rows
from bottega.data.examples_stage import ExampleSet, examples_of
from bottega.data.examples_writing import ExampleContext
from bottega.data.judge_stage import Progress, judge_all
from bottega.data.proofs import CardGate, prove_all
from bottega.data.records import TaskRecord
from bottega.data.settings import ExampleStage, JudgeStage
from bottega.data.splits import splits_of
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.stored_verdicts import StoringJudge, StoringTrustedJudge, judge_setup_of
from bottega.data.teacher_pool import TeacherPool
from bottega.data.tokens import counter
from bottega.data.trust import is_trusted, must_be_trusted, trusted_setup_of
from bottega.judge.device_facts import device_facts, is_here
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.judge.trusted.judge import TrustedJudge
from bottega.skills.library import Library
from bottega.skills.shipped import add_starter

LIBRARY = "library"
LIBRARY_VERSION = "shelf version"
AUDITING = 8
"""Workers of the judge that audit the trusted judge: more would wait for each other."""

MakeTeacherPool = Callable[[StoringJudge], TeacherPool]
"""Makes the teacher pool of a run; a teacher that judges while it works gets the judge that stores verdicts."""

NO_SETUP = JudgeSetup("none", "none")
"""Where nothing was judged."""


@dataclass
class StageResult:
    """What the first stage came to."""

    progress: Progress = field(default_factory=Progress)
    proofs: dict[str, int] = field(default_factory=dict)
    teacher: str = ""


async def judge_stage(
    folder: Path,
    task_records: Sequence[TaskRecord],
    make_teacher_pool: MakeTeacherPool,
    stage: JudgeStage,
    making: dict[str, Any],
    *,
    splitting: ExampleStage | None = None,
    progress: Progress | None = None,
    host: DeviceHost = LOCAL,
) -> StageResult:
    """Judge everything that is not judged yet. What was done before an error or an interrupt is in the folder."""
    judged = StageResult(progress or Progress())
    split = splitting or ExampleStage()
    with JudgedStore(folder) as store, opened_library(folder, store) as library, ExitStack() as opened:
        store.add_task_records(task_records)
        store.note("device", host.facts(stage.device).to_json())
        store.note("fingerprint", host.fingerprint(stage.device))
        trusted = opened.enter_context(_trusted_judge(stage)) if stage.trusted else None
        judge = opened.enter_context(
            host.judge(
                stage.device,
                workers=min(stage.workers, AUDITING) if stage.trusted else stage.workers,
                quick=True,
                baselines=stage.baselines,
                precision=stage.precision,
                timeout=stage.timeout,
            )
        )
        if not stage.trusted:
            stage = replace(stage, workers=judge.workers)  # of a cluster, known when it is there
        storing = StoringJudge(judge, store, judge_setup_of(stage, host), None if stage.trusted else judged.progress.verdict)
        teacher_pool = make_teacher_pool(storing)
        opened.callback(teacher_pool.close)
        opened.callback(judge.close)
        judged.teacher = teacher_pool.teacher
        judge_setup, judging = storing.judge_setup, _chosen_judge(stage, teacher_pool, storing, trusted, store, judged.progress)
        if isinstance(judging, StoringTrustedJudge):
            judge_setup = judging.judge_setup
        store.note_run({**making, "settings": stage.to_json(), "teacher": teacher_pool.teacher})
        try:
            await judge_all(task_records, teacher_pool, judging, store, stage, judged.progress)
        finally:
            if trusted is not None:
                trusted.close()
                judged.progress.spent, judged.progress.replaced = trusted.seconds, +trusted.replaced
                judged.progress.faults = trusted.errors
        if trusted is not None and stage.audit:
            await _audit(stage, store, judge_setup, storing, judged.progress)
        if stage.proofs and teacher_pool.varies and not judged.progress.time_up:
            card_index = CardIndex(library, DeviceFacts(**store.fact("device")), store.fact(LIBRARY_VERSION))
            gate = CardGate(store, library, teacher_pool, judge, judge_setup, stage, card_index, asyncio.get_running_loop())
            sides = splits_of(list(store.task_records()), split.held_out, split.salt)
            judged.proofs = await prove_all(gate, sides, judged.progress)
    return judged


async def teach_stage(
    folder: Path,
    task_records: Sequence[TaskRecord],
    make_teacher_pool: Callable[[], TeacherPool],
    stage: JudgeStage,
    making: dict[str, Any],
    *,
    progress: Progress | None = None,
) -> StageResult:
    """Have everything written that is not written yet, and judge nothing: no device is needed for that."""
    judged = StageResult(progress or Progress())
    with JudgedStore(folder) as store, opened_library(folder, store), closing(make_teacher_pool()) as teacher_pool:
        store.add_task_records(task_records)
        _note_device(store, stage.device)
        judged.teacher = teacher_pool.teacher
        store.note_run({**making, "settings": stage.to_json(), "teacher": teacher_pool.teacher, "stage": "teach"})
        await judge_all(task_records, teacher_pool, None, store, stage, judged.progress)
    return judged


def _note_device(store: JudgedStore, device: str) -> None:
    """What the kernels are written for, which need not be here. What a judge noted of its own device stands."""
    kind, known = device.partition(":")[0], store.fact("device")
    if store.judge_setups():
        return
    if is_here(device):
        store.note("device", device_facts(device).to_json())
    elif not known or known["kind"] != kind:
        store.note("device", DeviceFacts(kind, f"unknown {kind} device", "", 0, 0.0).to_json())


def _trusted_judge(stage: JudgeStage) -> TrustedJudge:
    return TrustedJudge(
        stage.device, workers=stage.workers, baselines=stage.baselines, precision=stage.precision, timeout=stage.timeout
    )


def _chosen_judge(
    stage: JudgeStage,
    teacher_pool: TeacherPool,
    storing: StoringJudge,
    trusted: TrustedJudge | None,
    store: JudgedStore,
    progress: Progress,
) -> StoringJudge | StoringTrustedJudge:
    if trusted is None:
        return storing
    must_be_trusted(teacher_pool.teacher.partition(" ")[0])
    return StoringTrustedJudge(trusted, store, trusted_setup_of(stage), progress.verdict)


async def _audit(
    stage: JudgeStage, store: JudgedStore, judge_setup: JudgeSetup, storing: StoringJudge, progress: Progress
) -> None:
    def changed(audit: Audit) -> None:
        progress.audit = audit.to_json()
        progress.changed()

    audit = await run_audit(store, judge_setup, storing, stage.audit, stage.baseline, min(stage.workers, AUDITING), changed)
    changed(audit)


def examples_stage(
    folder: Path,
    stage: ExampleStage,
    *,
    tokenizer: str = "",
    form: str = "jsonl",
    command: str = "",
    judge_setup: JudgeSetup | None = None,
    tracing: Tell = lambda done, of: None,
) -> tuple[ExampleSet, dict[str, Any]]:
    """Make the examples anew and write them with their card. Nothing is judged."""
    count, counted_by = counter(tokenizer)
    with JudgedStore(folder, create=False, write=False) as store, opened_library(folder, store, read_only=True) as library:
        judge_setups = store.judge_setups()
        if not judge_setups and not stage.unjudged:
            raise UsageError(
                f"{folder}: nothing is judged there yet; run `bottega data build` with --stage judge first, or add unjudged=true"
            )
        chosen = judge_setup or next(iter(judge_setups), NO_SETUP)
        known = store.fact("device")
        device = DeviceFacts(**known) if known else device_facts("cpu")
        prompts = Prompts(stage.style)  # type: ignore[arg-type]
        tasks = (task_record.task for task_record in store.taught())
        callgraphs = callgraphs_of(folder, tasks, tracing) if prompts.shows("write", "callgraph") else {}
        card_index = CardIndex(library, device, store.fact(LIBRARY_VERSION), stage.retrieved, callgraphs)
        context = ExampleContext(stage, prompts, device, card_index, callgraphs)
        outcome = examples_of(store, chosen, context, count)
        runs = store.runs()
        making = {
            "command": command or (runs[-1].get("command", "") if runs else ""),
            "teachers": sorted({str(run.get("teacher", "")) for run in runs}),
            "judge": chosen.judge,
            "device": chosen.device,
            "audit": store.fact(AUDIT) if is_trusted(chosen) else None,
            "fingerprint": store.fact("fingerprint"),
            "tasks_from": sorted({str(one) for run in runs for one in run.get("tasks", ())}),
            "seeds": sorted({int(seed) for run in runs for seed in run["settings"]["seeds"]}),
            "style": stage.style,
            "options": stage.to_json(),
            "other_benches": {
                f"{other.device}, judge {other.judge}": n for other, n in judge_setups.items() if other != chosen
            },
        }
        material = {**store.counts(), "verdicts_used": judge_setups.get(chosen, 0)}
        paths = write_rows(folder, [example.row() for example in outcome.examples], form)
        card = card_of(outcome, paths, material, making, counted_by)
        write_card(folder, card)
    return outcome, card


def opened_library(folder: Path, store: JudgedStore, read_only: bool = False) -> Library:
    """The library beside the data, begun with the starter set. Retrieval sees it as it was then; proved cards come on top."""
    library = Library(folder / LIBRARY, create=not read_only)
    if not read_only and store.fact(LIBRARY_VERSION) is None:
        add_starter(library)
        store.note(LIBRARY_VERSION, library.version)
    return library
