"""`bottega lineage`: an expert kernel in, skill cards out. The work is done in `bottega.lineage`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import Field

from bottega.agents.prompts import Prompts
from bottega.app.configured import Given, configured
from bottega.app.device_host import device_host
from bottega.app.judge_command import read_candidate
from bottega.app.terminal import print_json, say
from bottega.backbone.choose import open_backbone
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.errors import UsageError
from bottega.core.files import write
from bottega.core.setting_kinds import Cluster, Count, Positive
from bottega.core.settings import CommandSettings
from bottega.core.task import Task
from bottega.core.workload import Workload
from bottega.episodes.backbone_defaults import answer_tokens, prompt_style
from bottega.episodes.delivery.page import html, markdown
from bottega.languages import language_named
from bottega.lineage.journal import LineageJournal, Record, read_records
from bottega.lineage.mine import CARDS, Expert, Mined, MiningLimits, mine
from bottega.lineage.model_steps import ModelSteps
from bottega.lineage.page import lineage_page
from bottega.lineage.round_trip import Sibling, by_rules_or_example
from bottega.lineage.rule import rules_of
from bottega.lineage.tree import recorded, tree_lines
from bottega.lineage.walk import by_rules
from bottega.tasks.load import load_task

app = typer.Typer(
    help="Take expert kernels apart, one optimisation at a time, and make skill cards of the steps.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)


class LineageMineSettings(CommandSettings):
    command: ClassVar[str] = "lineage mine"
    flags: ClassVar[tuple[str, ...]] = ("task", "out", "sibling", "backbone", "device", "cluster", "json")

    task: str
    """The task that the kernel solves: a file or builtin:NAME."""
    out: Path
    """The run's folder. The same command goes on with a run that is there."""
    sibling: str | None = None
    """Another task, on which every card's step is done again too."""
    sibling_kernel: Path | None = None
    """A plain kernel for the sibling; if left out the walk's own plain end, which must then fit both tasks."""
    backbone: str | None = None
    """A model that takes the steps: local:PATH, server:MODEL@URL, scripted:FILE; if left out, rules do."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    cluster: Cluster = None
    baseline: str = "eager"
    """What both kernels of a step are timed against: eager, compile or autotune."""
    precision: str = "fp32"
    """fp32 (strict), or what kernels may use: tf32, bf16, fp16."""
    quick: bool = True
    """Fewer input variants and timed rounds for each verdict."""
    steps: Positive = 20
    """Steps backward at most."""
    pairs: Count = 6
    """Pairs of optimisations that are put into the plain kernel together, at most."""
    timeout: float = 120.0
    """Seconds that one kernel may take."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """JSON on standard output."""


@configured(app, LineageMineSettings, "KERNEL", "A Python file that defines ModelNew: the expert kernel.")
def mine_command(given: Given[LineageMineSettings]) -> None:
    """Take an expert kernel apart: every optimisation that can be taken out becomes a card, and every card is tried out again.

        bottega lineage mine examples/experts/cpp/rms_norm_rows.py --task builtin:rms_norm_rows --out lineage-rms-norm

    The kernel is walked backward to a plain version that is still right; the judge decides every step. Then each step is done again from its
    card alone, on the plain kernel and on the sibling, and pairs of steps are tried together. Steps come from rules, or from a model:

        bottega lineage mine kernel.py --task task.py --out DIR --backbone server:qwen3-32b@http://localhost:8000/v1

    On a sibling task too, with a plain kernel of its own:

        bottega lineage mine kernel.py --task task.py --out DIR --sibling other_task.py sibling_kernel=other_plain.py

    The folder then holds `cards.jsonl` for `bottega skills import`, the plain kernel as `plain.py`, `report.html` and `report.md`. A run that
    was stopped goes on with the same command.

    Exit code 0 when a card was verified, 1 when none was, 2 for wrong usage or an expert kernel that is not right.
    """
    settings = given.settings
    if len(given.words) != 1:
        raise UsageError("name one expert kernel: a Python file that defines ModelNew")
    mined = _mined(Path(given.words[0]), settings)
    page = lineage_page(settings.out)
    write(settings.out / "report.html", html(page))
    write(settings.out / "report.md", markdown(page))
    verified = [trip for trip in mined.trips if trip.verified]
    if settings.as_json:
        cards = [card.to_json() for card in mined.cards]
        print_json({"folder": str(settings.out), "steps": len(mined.lineage.steps), "verified": len(verified), "cards": cards})
    else:
        found = recorded(read_records(settings.out))
        for line in tree_lines(found):
            say(line)
        if found.surely:
            say(found.surely)
        say(f"{len(mined.cards)} cards, {len(verified)} steps verified: bottega skills import {settings.out / CARDS}")
    raise typer.Exit(0 if verified else 1)


def _mined(kernel: Path, settings: LineageMineSettings) -> Mined:
    candidate = read_candidate(kernel)
    size = "cpu" if settings.device == "cpu" else "gpu"
    task = load_task(settings.task, size=size)
    beside = load_task(settings.sibling, size=size) if settings.sibling else None
    rules = rules_of(candidate.language) if language_named(candidate.language).rewrites or not settings.backbone else ()
    with ExitStack() as stack:
        host = stack.enter_context(device_host(cluster=settings.cluster))
        terms = {
            "kernel": kernel.stem,
            "candidate": candidate.id,
            "task": task.label,
            "text_of_the_task": task.id,
            "sibling": beside.label if beside else "",
            "backbone": settings.backbone or "",
            "device": settings.device,
            "settings": settings.model_dump(mode="json", include={"baseline", "precision", "quick", "steps", "pairs"}),
            "fingerprint": host.fingerprint(settings.device),
        }
        journal = stack.enter_context(LineageJournal(settings.out))
        journal.begin(terms)
        if not settings.as_json:
            journal.listeners.append(_show)
        judge = stack.enter_context(
            host.judge(
                settings.device,
                workers=1,
                timeout=settings.timeout,
                baselines=(settings.baseline,),
                quick=settings.quick,
                precision=settings.precision,
            )
        )
        propose, redo, facts = by_rules(rules), by_rules_or_example(rules), host.facts(settings.device)
        if settings.backbone:
            client, prompts = open_backbone(settings.backbone), Prompts(prompt_style(settings.backbone))
            most = answer_tokens(settings.backbone)
            model = stack.enter_context(ModelSteps(client, journal, task, candidate.language, facts, prompts, most))
            propose, redo = model.propose, model.redo
        expert = Expert(kernel.stem, candidate.source, candidate.language, task)
        sibling = None
        if beside is not None:
            plain = read_candidate(settings.sibling_kernel).source if settings.sibling_kernel else ""
            sibling = Sibling(beside, plain)
        limits = MiningLimits(settings.steps, settings.pairs)

        def workload(of: Task) -> Workload:
            return shared_tracer().workload(of, facts)

        return mine(journal, judge, expert, rules, propose, redo, sibling, limits, workload)


def _show(key: str, record: Record) -> None:
    if key.startswith("verdict/"):
        verdict = record["verdict"]
        speed = ", ".join(f"{each['point']:.2f}x {name}" for name, each in verdict["speedup"].items())
        say(f"judged {record['told']} on {record['task']}: {verdict['outcome']} {speed}".rstrip())
    elif key.startswith("step/"):
        say(f"step {record['step']['number']}: without {record['step']['attempt']['feature']}")


@app.command("show")
def show_command(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a `bottega lineage mine`.")],
) -> None:
    """Print a lineage as a tree, finished or not: what each step was worth, what was refused, what could be done again.

    bottega lineage show lineage-rms-norm
    """
    records = read_records(run)
    if not records:
        raise UsageError(f"{run}: holds no lineage; make one with `bottega lineage mine`")
    for line in tree_lines(recorded(records)):
        say(line)
