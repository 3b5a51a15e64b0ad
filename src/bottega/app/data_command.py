"""`bottega data`: build cold-start data from tasks, look into it, and print its card."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bottega.app.configured import Given, configured
from bottega.app.data_display import trusted_words, watching
from bottega.app.data_drafts import drafts_command
from bottega.app.data_joining import join_command
from bottega.app.device_host import device_host
from bottega.app.settings.data_build import DataBuildSettings
from bottega.app.terminal import Terminal, print_json, say
from bottega.core.errors import UsageError
from bottega.data.build import StageResult, examples_stage, judge_stage, teach_stage
from bottega.data.callgraphs import Tell
from bottega.data.data_card import changed_files, read_card, text_of
from bottega.data.data_files import read_rows
from bottega.data.judge_stage import Progress
from bottega.data.settings import DiversityCaps, ExampleStage, JudgeStage
from bottega.data.task_columns import load_task_records
from bottega.data.teachers import TEACHERS
from bottega.data.teachers.chosen import compiler_pool_for, family_of, teacher_pool_for
from bottega.data.trust import must_be_trusted
from bottega.episodes.writing_settings import LANGUAGE_NAMES
from bottega.judge.baselines import parse_baselines
from bottega.judge.device_host import DeviceHost
from bottega.judge.machine import worker_count
from bottega.judge.trusted.judge import TIMEOUT_SECONDS
from bottega.languages import default_language, use_language

CALLGRAPHS_EVERY_S = 10.0

app = typer.Typer(
    help="Training data from judged kernels, for all three roles: write kernels, select skills, summarise.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)

app.command("drafts")(drafts_command)
app.command("join")(join_command)

Folder = Annotated[Path, typer.Argument(help="The folder of the data.")]


@configured(app, DataBuildSettings, "TASKS", "Task files, folders, data sets, builtin, or kernelbench:level1.")
def build_command(given: Given[DataBuildSettings]) -> None:
    """Judge what a teacher writes for tasks, and make examples of it for the writer, the selector and the summariser.

        bottega data build builtin --languages cpp --out cold-start

    Everything judged is kept at once: after Ctrl-C, a crash or a full disk the same command goes on, and nothing is judged twice.
    `--stage examples` makes the examples again from what is there, with other settings, in seconds. `--stage teach` only has the
    kernels written, on a machine without the device.

    Exit code 0 when data was made, 1 when an answer of ours could not be read back (a bug), 2 for wrong usage, 130 when interrupted.
    """
    settings, out = given.settings, given.settings.out
    TEACHERS.check(settings.teacher)
    if settings.trust_teacher:
        must_be_trusted(family_of(settings.teacher))
        if settings.cluster is not None:
            raise UsageError("trust_teacher judges in processes of this machine: leave out --cluster, or trust_teacher")
    if settings.stage == "teach" and settings.teacher == "llm":
        raise UsageError("--stage teach is not for the llm teacher: its kernels are judged while it works; use --stage judge")
    making, judging = example_stage_for(settings), judge_stage_for(settings)
    command = shlex.join(["bottega", *sys.argv[1:]])
    told: dict[str, Any] = {"folder": str(out)}
    if settings.stage != "examples":
        with device_host(cluster=settings.cluster) as host:
            told |= _taught_and_judged(given, judging, making, command, host)
    if settings.stage not in ("teach", "judge"):
        outcome, card = examples_stage(
            out,
            making,
            tokenizer=settings.tokenizer,
            form=settings.format,
            command=command,
            tracing=_say_callgraphs(quiet=settings.as_json),
        )
        told |= {"examples": card["examples"], "splits": card["splits"], "left_out": card["left_out"], "counts": card["counts"]}
        told["unreadable"] = outcome.faults
        if not settings.as_json:
            _show_card(card)
        for fault in outcome.faults:
            say(f"bottega: a bug, please report it: {fault}", err=True)
    if settings.as_json:
        print_json(told)
    raise typer.Exit(1 if told.get("unreadable") else 0)


def example_stage_for(settings: DataBuildSettings) -> ExampleStage:
    return ExampleStage(
        style=settings.style,
        baseline=parse_baselines(settings.baseline)[0],
        max_tokens=settings.max_tokens,
        concise=settings.concise,
        unjudged=settings.unjudged,
        believed=settings.believed,
        held_out=settings.held_out,
        caps=DiversityCaps(**settings.caps.model_dump()),
        filtered=settings.filter,
    )


def judge_stage_for(settings: DataBuildSettings) -> JudgeStage:
    trusted = settings.trust_teacher
    workers = worker_count(settings.workers, settings.device)
    if trusted and settings.workers == "auto":
        workers = max(1, (os.cpu_count() or 3) - 2)
    return JudgeStage(
        device=settings.device,
        languages=languages_of(settings.languages, settings.device),
        seeds=settings.seeds,
        workers=workers,
        teachers=settings.teachers,
        timeout=settings.timeout or (TIMEOUT_SECONDS if trusted else 60.0),
        baselines=parse_baselines(settings.baseline),
        mistakes=settings.mistakes,
        proofs=settings.proofs,
        rounds=settings.rounds,
        retry=settings.retry,
        steps=settings.steps,
        seconds=settings.seconds,
        trusted=trusted,
        audit=settings.audit,
    )


def _taught_and_judged(
    given: Given[DataBuildSettings], judging: JudgeStage, making: ExampleStage, command: str, host: DeviceHost
) -> dict[str, Any]:
    settings, tasks = given.settings, given.words
    if not tasks:
        raise UsageError("name the tasks to teach: files, folders, a data set, builtin, or kernelbench:level1")
    if settings.teacher == "llm" and not settings.backbone:
        raise UsageError("the llm teacher needs backbone=SPEC: local:PATH, server:MODEL@URL, or embedded")
    task_records, problems = load_task_records(tasks, settings.device, settings.level)
    for problem in problems:
        say(f"bottega: {problem}", err=True)
    task_records = task_records[: settings.limit or len(task_records)]
    progress = Progress()
    facts = {"command": command, "tasks": tasks}
    run = (
        teach_stage(
            settings.out, task_records, lambda: compiler_pool_for(settings.teacher, judging), judging, facts, progress=progress
        )
        if settings.stage == "teach"
        else judge_stage(
            settings.out,
            task_records,
            lambda judge: teacher_pool_for(settings.teacher, settings.backbone, judging, judge, settings.out, host),
            judging,
            facts,
            splitting=making,
            progress=progress,
            host=host,
        )
    )
    try:
        with watching(progress, quiet=settings.as_json):
            judged = asyncio.run(run)
    finally:
        if not settings.as_json:
            _say_judged(progress)
    return judged_facts(judged)


@app.command("show")
def show_command(
    folder: Folder,
    number: Annotated[int, typer.Option("--number", "-n", help="How many.")] = 1,
    kind: Annotated[str, typer.Option(help="Only of this kind: first, repair, improve, select, summarise …")] = "",
    split: Annotated[str | None, typer.Option(help="train or test.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as they are, one a line.")] = False,
) -> None:
    """Print examples as a model reads them.

    bottega data show cold-start --kind repair
    """
    shown, kinds = 0, set[str]()
    for row in read_rows(folder, split):
        kinds.add(row["kind"])
        if kind and row["kind"] != kind:
            continue
        if shown == number:
            break
        shown += 1
        if as_json:
            print_json(row)
            continue
        facts = {
            name: row[name]
            for name in ("id", "kind", "task_name", "language", "techniques", "outcome", "speedup", "tokens", "split")
        }
        say("  ".join(f"{name}={value}" for name, value in facts.items()))
        for message in row["messages"]:
            say(f"\n--- {message['role']} ---\n{message['content']}")
        say("")
    if not shown:
        others = f" of the kind {kind!r}, only {', '.join(sorted(kinds))}" if kinds else ""
        raise UsageError(f"{folder}: no example is there{others}")


@app.command("stats")
def stats_command(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False
) -> None:
    """Count what is in the data, and say how broad it is.

    bottega data stats cold-start
    """
    card = read_card(folder)
    rows = Counter((row["split"], row["role"], row["kind"]) for row in read_rows(folder))
    if as_json:
        facts = {"counts": card["counts"], "coverage": card["coverage"], "tokens": card["tokens"]}
        print_json({**facts, "rows": {"/".join(key): number for key, number in rows.items()}})
        return
    _show_card(card)


@app.command("card")
def card_command(folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="The card as JSON.")] = False) -> None:
    """Print the data card, and check the hashes of all files.

        bottega data card cold-start

    Exit code 1 when a file is not what the card says.
    """
    card = read_card(folder)
    sys.stdout.write(json.dumps(card) + "\n" if as_json else text_of(card))
    changed = changed_files(folder, card)
    for name in changed:
        say(f"bottega: {folder / name}: is gone, or is not what the card says", err=True)
    raise typer.Exit(1 if changed else 0)


def languages_of(names: Sequence[str], device: str) -> tuple[str, ...]:
    chosen = list(names) or [default_language(device).name]
    for word in chosen:
        if not use_language(word).has_kernels:
            raise UsageError(f"{word}: no kernels are written in it; use {LANGUAGE_NAMES}")
    return tuple(dict.fromkeys(chosen))


@app.command("techniques")
def techniques_command(
    language: Annotated[str, typer.Argument(help="One that the compiler writes; all of them if left out.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array on standard output.")] = False,
) -> None:
    """List what the rule-based compiler can do to a kernel, in the order of its passes, and when each is sound.

    bottega data techniques triton
    """
    from bottega.compiler.step_compiler import passes_of, target_languages

    chosen = [language] if language else list(target_languages())
    if any(name not in target_languages() for name in chosen):
        raise UsageError(f"the compiler writes {', '.join(target_languages())}, not {language}")
    rows = [(name, technique) for name in chosen for technique in passes_of(name)]
    if as_json:
        found = [
            {"language": name, "name": t.name, "when": t.when, "summary": t.summary, "cards": list(t.cards)} for name, t in rows
        ]
        print_json(found)
        return
    table = Table("language", "technique", "when")
    for name, technique in rows:
        table.add_row(name, technique.name, technique.when)
    Terminal().print(table)


def judged_facts(judged: StageResult) -> dict[str, Any]:
    progress = judged.progress
    names = ("tasks", "tasks_done", "refused", "failed", "judged", "known")
    return {
        **{name: getattr(progress, name) for name in names},
        "builds": progress.builds,
        "mutants": progress.mutants,
        "outcomes": dict(progress.outcomes),
        "refusals": dict(progress.refusals.most_common(20)),
        "troubles": progress.troubles,
        "left": progress.left,
        "spent_s": {name: round(seconds, 1) for name, seconds in progress.spent.most_common()},
        "replaced": dict(progress.replaced),
        "faults": progress.faults[:3],
        "judging_s": round(progress.judging_s, 1),
        "audit": progress.audit,
        "proofs": judged.proofs,
        "teacher": judged.teacher,
    }


def _say_callgraphs(quiet: bool) -> Tell:
    """A line now and then: tens of thousands take minutes."""
    said = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal said
        if not quiet and time.monotonic() - said >= CALLGRAPHS_EVERY_S:
            said = time.monotonic()
            say(f"{done} of {of} call graphs made", err=True)

    return tell


def _say_judged(progress: Progress) -> None:
    for trouble in progress.troubles[:20]:
        say(f"bottega: {trouble}", err=True)
    if len(progress.troubles) > 20:
        say(f"bottega: and {len(progress.troubles) - 20} more like these", err=True)
    outcomes = ", ".join(f"{number} {name}" for name, number in progress.outcomes.most_common())
    say(
        f"{progress.tasks_done} of {progress.tasks} tasks, {progress.builds} builds ({progress.refused} refused, {progress.failed} "
        f"failed), {progress.judged} kernels judged now and {progress.known} before: {outcomes or 'none'}",
        err=True,
    )
    for line in trusted_words(progress):
        say(line, err=True)
    if progress.time_up:
        say(f"the time is up: {progress.left} tasks are left to the next run of the same command", err=True)


def _show_card(card: dict[str, Any]) -> None:
    console = Terminal()
    counts = Table("", "examples", title=f"{card['examples']} examples: {card['splits']}", title_justify="left")
    for axis in ("role", "kind", "language", "level", "outcome"):
        for name, number in card["counts"][axis].items():
            counts.add_row(f"{axis}: {name}", str(number))
    console.print(counts)
    table = Table(
        "axis", "values", "effective", "largest share", title="training side, before → after the filter", title_justify="left"
    )
    for row in card["coverage"]:
        one, other = row["before"], row["after"]
        table.add_row(
            row["axis"],
            f"{one['values']} → {other['values']}",
            f"{one['effective']:.1f} → {other['effective']:.1f}",
            f"{one['largest_share']:.0%} → {other['largest_share']:.0%}",
        )
    console.print(table)
    for reason, number in card["left_out"].items():
        console.print(f"left out: {number} {reason}")
