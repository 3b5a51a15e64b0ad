"""`bottega data`: build cold-start data from tasks, look into it, and print its card."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.table import Table

from bottega.app.data_display import trusted_words, watching
from bottega.app.data_drafts import drafts_command
from bottega.app.data_joining import join_command
from bottega.app.data_teachers import TEACHERS, builder_for, classroom_for, family_of
from bottega.app.judging import strict
from bottega.app.terminal import Terminal, say
from bottega.core.candidate import Language
from bottega.core.errors import UsageError
from bottega.data.build import Judged, examples_stage, judge_stage, teach_stage
from bottega.data.callgraphs import Tell
from bottega.data.data_card import changed_files, read_card, text_of
from bottega.data.data_files import read_rows
from bottega.data.judge_stage import Progress
from bottega.data.settings import Caps, ExampleStage, JudgeStage
from bottega.data.task_columns import load_subjects
from bottega.data.trusted.bench import LIMIT_SECONDS
from bottega.data.trusted.trust import must_be_trusted
from bottega.judge.baselines import parse_baselines
from bottega.judge.machine import worker_count

SKETCHES_EVERY_S = 10.0
STAGES = ("teach", "judge", "examples", "all")
WHAT, MATERIAL, EXAMPLES, OUTPUT = "What is taught", "Judging", "Examples", "Output"

app = typer.Typer(
    help="Cold-start data: examples for all three roles from judged kernels.", no_args_is_help=True, add_completion=False
)

app.command("drafts")(drafts_command)
app.command("join")(join_command)

Folder = Annotated[Path, typer.Argument(help="The folder of the data.")]


def _in(panel: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **options)


@app.command("build")
def build_command(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Task files, folders, data sets, builtin, or kernelbench:level1.")
    ] = None,
    out: Annotated[Path, _in(OUTPUT, "--out", metavar="DIR", help="Where material and data are kept.")] = Path("cold-start"),
    teacher: Annotated[
        str,
        _in(
            WHAT,
            "--teacher",
            help="builder; llm with --backbone; plain: the builder in one plain hand, for --style terse; parts: of plain one kernel a task.",
        ),
    ] = "builder",
    backbone: Annotated[
        str, _in(WHAT, "--backbone", metavar="SPEC", help="Who answers for the llm teacher: local:PATH, server:MODEL@URL …")
    ] = "",
    languages: Annotated[
        str, _in(WHAT, "--languages", help="cpp, triton, cuda, with commas; cpp on a CPU, triton on a GPU.")
    ] = "",
    level: Annotated[list[int] | None, _in(WHAT, "--level", help="Only tasks of this level; may be given often.")] = None,
    limit: Annotated[int, _in(WHAT, "--limit", help="At most this many tasks, the first; 0 for all.")] = 0,
    seeds: Annotated[str, _in(WHAT, "--seeds", help="Seeds of the teacher: a number of them, or a list with commas.")] = "1",
    device: Annotated[str, _in(MATERIAL, "--device", help="cpu, cuda or cuda:N.")] = "cpu",
    workers: Annotated[
        str,
        _in(
            MATERIAL,
            "--workers",
            metavar="N",
            help="Kernels judged side by side; auto: what cores carry, all but two with --trust-teacher.",
        ),
    ] = "auto",
    teachers: Annotated[int, _in(MATERIAL, "--teachers", help="Processes that teach.")] = 2,
    baseline: Annotated[
        str,
        _in(
            MATERIAL,
            "--baseline",
            help="eager, compile, autotune, best (the fastest of them), or several by comma. The first one counts.",
        ),
    ] = "eager",
    mistakes: Annotated[int, _in(MATERIAL, "--mistakes", help="Wrong variants of a kernel; 0 for none.")] = 3,
    proofs: Annotated[int, _in(MATERIAL, "--proofs", help="Cards put to the gate; 0 for none, and no summaries.")] = 8,
    rounds: Annotated[int, _in(MATERIAL, "--rounds", help="Pairs of attempts on each task of a proof, at most.")] = 24,
    timeout: Annotated[
        float, _in(MATERIAL, "--timeout", help="Seconds of a kernel's own time; 0 for 60, or 20 with --trust-teacher.")
    ] = 0.0,
    trust_teacher: Annotated[
        bool,
        _in(
            MATERIAL, "--trust-teacher", help="Judge on the bench that trusts the builder: ten times as fast, and not isolated."
        ),
    ] = False,
    audit: Annotated[
        float, _in(MATERIAL, "--audit", metavar="SHARE", help="Of its verdicts, judged again by the judge.")
    ] = 0.02,
    steps: Annotated[
        str, _in(MATERIAL, "--steps", help="Kernels of a course that are judged: all, ends, or a number.")
    ] = "all",
    seconds: Annotated[float, _in(MATERIAL, "--seconds", help="Begin no further task after this long; 0 for never.")] = 0.0,
    retry: Annotated[bool, _in(MATERIAL, "--retry", help="Ask again for courses that failed before.")] = False,
    stage: Annotated[str, _in(OUTPUT, "--stage", help="teach, judge, examples, or all.")] = "all",
    style: Annotated[
        str, _in(EXAMPLES, "--style", help="terse for models trained on it, compact for small ones, full for large ones.")
    ] = "compact",
    tokenizer: Annotated[
        str, _in(EXAMPLES, "--tokenizer", metavar="NAME", help="embedded, or a model's folder or name; estimated if left out.")
    ] = "",
    max_tokens: Annotated[int, _in(EXAMPLES, "--max-tokens", help="Leave out longer examples; 0 for none.")] = 0,
    concise: Annotated[
        float,
        _in(EXAMPLES, "--concise", help="Learn the shortest kernel with this share of the best one's speed; 1: the fastest."),
    ] = 1.0,
    renamed: Annotated[
        int, _in(EXAMPLES, "--renamed", help="Copies of every training example for the writer under other names.")
    ] = 0,
    believed: Annotated[
        bool,
        _in(
            EXAMPLES,
            "--believed",
            help="Summaries also of cards that helped on one task and no gate has proved, marked as such.",
        ),
    ] = False,
    unjudged: Annotated[
        bool, _in(EXAMPLES, "--unjudged", help="A first attempt also of courses that nobody judged, marked as such.")
    ] = False,
    held_out: Annotated[float, _in(EXAMPLES, "--held-out", help="Share of operator combinations kept for testing.")] = 0.1,
    cap_task: Annotated[int, _in(EXAMPLES, "--cap-task", help="Examples of a kind for one task and language.")] = 4,
    cap_ops: Annotated[int, _in(EXAMPLES, "--cap-ops", help="Examples of a role for one operator combination.")] = 24,
    cap_technique: Annotated[
        int, _in(EXAMPLES, "--cap-technique", help="Examples of a role for one set of techniques; 0: an eighth, at least 200.")
    ] = 0,
    cap_structure: Annotated[int, _in(EXAMPLES, "--cap-structure", help="Examples of a role for one shape of kernel.")] = 16,
    share: Annotated[float, _in(EXAMPLES, "--largest-share", help="Of one level, language, outcome or kind.")] = 0.6,
    no_filter: Annotated[bool, _in(EXAMPLES, "--no-filter", help="Keep everything.")] = False,
    form: Annotated[str, _in(OUTPUT, "--format", help="jsonl or parquet.")] = "jsonl",
    as_json: Annotated[bool, _in(OUTPUT, "--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Judge what a teacher writes for tasks, and make examples of it for the writer, the selector and the summariser.

        bottega data build builtin --languages cpp --seeds 2 --out cold-start

    Everything judged is kept at once: after Ctrl-C, a crash or a full disk the same command goes on, and nothing is judged twice.
    `--stage examples` makes the examples again from what is there, with other options, in seconds. `--stage teach` only has the
    kernels written, on a machine without the device.

    Exit code 0 when data was made, 1 when an answer of ours could not be read back (a bug), 2 for wrong usage, 130 when interrupted.
    """
    if stage not in STAGES:
        raise UsageError(f"unknown stage {stage!r}; use {', '.join(STAGES)}")
    baselines = parse_baselines(baseline)
    if teacher not in TEACHERS and ":" not in teacher:
        raise UsageError(f"unknown teacher {teacher!r}; use {', '.join(TEACHERS)}, or module:Class for one of your own")
    if trust_teacher:
        must_be_trusted(family_of(teacher))
    if stage == "teach" and teacher == "llm":
        raise UsageError("--stage teach is not for the llm teacher: its kernels are judged while it works; use --stage judge")
    caps = Caps(cap_task, cap_ops, cap_technique, cap_structure, share)
    making = ExampleStage(
        style=style,
        baseline=baselines[0],
        max_tokens=max_tokens,
        concise=concise,
        renamed=renamed,
        unjudged=unjudged,
        believed=believed,
        held_out=held_out,
        caps=caps,
        filtered=not no_filter,
    )
    judging = JudgeStage(
        device=device,
        languages=languages_of(languages, device),
        seeds=seeds_of(seeds),
        workers=max(1, (os.cpu_count() or 3) - 2) if trust_teacher and workers == "auto" else worker_count(workers, device),
        teachers=teachers,
        timeout=timeout or (LIMIT_SECONDS if trust_teacher else 60.0),
        baselines=baselines,
        mistakes=mistakes,
        proofs=proofs,
        rounds=rounds,
        retry=retry,
        steps=steps,
        seconds=seconds,
        trusted=trust_teacher,
        audit=audit,
    )
    command = shlex.join(["bottega", *sys.argv[1:]])
    told: dict[str, Any] = {"folder": str(out)}
    if stage != "examples":
        if not tasks:
            raise UsageError("name the tasks to teach: files, folders, a data set, builtin, or kernelbench:level1")
        subjects, problems = load_subjects(tasks, device, level or ())
        for problem in problems:
            say(f"bottega: {problem}", err=True)
        subjects = subjects[: limit or len(subjects)]
        progress = Progress()
        facts = {"command": command, "tasks": tasks}
        run = (
            teach_stage(out, subjects, lambda: builder_for(teacher, judging), judging, facts, progress=progress)
            if stage == "teach"
            else judge_stage(
                out,
                subjects,
                lambda judge: classroom_for(teacher, backbone, judging, judge, out),
                judging,
                facts,
                splitting=making,
                progress=progress,
            )
        )
        try:
            with watching(progress, quiet=as_json):
                judged = asyncio.run(run)
        finally:
            told |= judged_facts(Judged(progress))
            if not as_json:
                _say_judged(progress)
        told |= judged_facts(judged)
    if stage not in ("teach", "judge"):
        outcome, card = examples_stage(
            out, making, tokenizer=tokenizer, form=form, command=command, sketching=_say_sketches(quiet=as_json)
        )
        told |= {"examples": card["examples"], "splits": card["splits"], "left_out": card["left_out"], "counts": card["counts"]}
        told["unreadable"] = outcome.faults
        if not as_json:
            _show_card(card)
        for fault in outcome.faults:
            say(f"bottega: a bug, please report it: {fault}", err=True)
    if as_json:
        sys.stdout.write(json.dumps(strict(told)) + "\n")
    raise typer.Exit(1 if told.get("unreadable") else 0)


@app.command("show")
def show_command(
    folder: Folder,
    number: Annotated[int, typer.Option("--number", "-n", help="How many.")] = 1,
    kind: Annotated[str, typer.Option(help="Only of this kind: first, repair, improve, select, summarise …")] = "",
    split: Annotated[str | None, typer.Option(help="train or test.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as they are, one a line.")] = False,
) -> None:
    """Print examples as a model reads them."""
    shown = 0
    for row in read_rows(folder, split):
        if kind and row["kind"] != kind:
            continue
        if shown == number:
            break
        shown += 1
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
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
        raise UsageError(f"{folder}: no example {f'of the kind {kind!r} ' if kind else ''}is there")


@app.command("stats")
def stats_command(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False
) -> None:
    """Count what is in the data, and say how broad it is."""
    card = read_card(folder)
    rows = Counter((row["split"], row["role"], row["kind"]) for row in read_rows(folder))
    if as_json:
        facts = {"counts": card["counts"], "coverage": card["coverage"], "tokens": card["tokens"]}
        sys.stdout.write(json.dumps({**facts, "rows": {"/".join(key): number for key, number in rows.items()}}) + "\n")
        return
    _show_card(card)


@app.command("card")
def card_command(folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="The card as JSON.")] = False) -> None:
    """Print the data card, and check the hashes of all files. Exit code 1 when a file is not what the card says."""
    card = read_card(folder)
    sys.stdout.write(json.dumps(card) + "\n" if as_json else text_of(card))
    changed = changed_files(folder, card)
    for name in changed:
        say(f"bottega: {folder / name}: is gone, or is not what the card says", err=True)
    raise typer.Exit(1 if changed else 0)


def languages_of(text: str, device: str) -> tuple[Language, ...]:
    chosen = [word.strip() for word in text.split(",") if word.strip()] or ["cpp" if device == "cpu" else "triton"]
    for word in chosen:
        if word not in get_args(Language) or word == "torch":
            raise UsageError(f"unknown language {word!r}; use cpp, triton or cuda")
    return tuple(cast(list[Language], list(dict.fromkeys(chosen))))


@app.command("techniques")
def techniques_command(
    language: Annotated[str, typer.Argument(help="cpp, triton or cuda; all of them if left out.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array on standard output.")] = False,
) -> None:
    """List what the builder can do to a kernel, in the order in which a course does it, and when each is sound."""
    from bottega.compiler.builder import LANGUAGES, techniques_of

    chosen = [language] if language else list(LANGUAGES)
    if any(name not in LANGUAGES for name in chosen):
        raise UsageError(f"the builder writes {', '.join(LANGUAGES)}, not {language}")
    rows = [(name, technique) for name in chosen for technique in techniques_of(cast(Language, name))]
    if as_json:
        found = [
            {"language": name, "name": t.name, "when": t.when, "summary": t.summary, "cards": list(t.cards)} for name, t in rows
        ]
        sys.stdout.write(json.dumps(found) + "\n")
        return
    table = Table("language", "technique", "when")
    for name, technique in rows:
        table.add_row(name, technique.name, technique.when)
    Terminal().print(table)


def seeds_of(text: str) -> tuple[int, ...]:
    """`3` is 0, 1, 2; `4,7` is 4 and 7."""
    try:
        numbers = [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"seeds {text!r}: give a number of seeds, or a list such as 0,1,2") from None
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] < 1):
        raise UsageError(f"seeds {text!r}: give at least one, and none below 0")
    return tuple(dict.fromkeys(numbers)) if "," in text else tuple(range(numbers[0]))


def judged_facts(judged: Judged) -> dict[str, Any]:
    progress = judged.progress
    names = ("tasks", "tasks_done", "courses", "refused", "failed", "judged", "known", "slips")
    return {
        **{name: getattr(progress, name) for name in names},
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


def _say_sketches(quiet: bool) -> Tell:
    """A line now and then: tens of thousands take minutes."""
    said = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal said
        if not quiet and time.monotonic() - said >= SKETCHES_EVERY_S:
            said = time.monotonic()
            say(f"{done} of {of} tasks sketched", err=True)

    return tell


def _say_judged(progress: Progress) -> None:
    for trouble in progress.troubles[:20]:
        say(f"bottega: {trouble}", err=True)
    if len(progress.troubles) > 20:
        say(f"bottega: and {len(progress.troubles) - 20} more like these", err=True)
    outcomes = ", ".join(f"{number} {name}" for name, number in progress.outcomes.most_common())
    say(
        f"{progress.tasks_done} of {progress.tasks} tasks, {progress.courses} courses ({progress.refused} refused, {progress.failed} "
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
