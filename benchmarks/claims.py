"""The paper's claims, each put to the test by runs of `bottega bench`: skills help, the selector beats BM25, joint training beats writing alone,
and more serial turns beat more samples.

Every run is the command that a user would give, with a folder of its own. Minutes are shared out among the runs that are not whole, and what
one leaves goes to those after it; a run that passes its share is stopped and counts as far as it came. The same call goes on. What an
earlier run judged is not judged again (`--known`), so that the same kernel gets the same verdict in all of them.

    python benchmarks/claims.py run --tasks TASKS --model embedded --out claims --limit 30 --minutes 10      # one GPU
    python benchmarks/claims.py run --tasks TASKS --model embedded --out claims --show                       # the commands, and nothing else
    python benchmarks/claims.py table claims                                                                 # claims/claims.md
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from paired import Curve, Finding, Pairing, curve, findings, pairing, tried

from bottega.bench.attempt import BenchRun
from bottega.bench.caveats import incomparable
from bottega.bench.compare import sign_test
from bottega.bench.run_directory import LEADERBOARD, read_head, read_run
from bottega.core.errors import BottegaError, UsageError

GREEDY, SELECTOR, BM25, RL, WRITE_ONLY, PARALLEL, SERIAL = (
    "greedy", "skills-selector", "skills-bm25", "greedy-rl", "greedy-write-only", "parallel", "serial",
)  # fmt: skip
ANSWERS, TEMPERATURE = 4, "0.8"
"""Of the parallel and of the serial run."""
JUDGED = ("style=terse", "quick=true", "max_tokens=3072", "timeout=25")
STARTING = 1.0
"""What a run takes before its first verdict, in answers to each task: a guess for some thirty tasks."""
GRACE = 15.0
"""Seconds that a run has to end in when it is asked to."""
FREE = ("--device", "--out")
FREE_KEYS = ("workers=", "at_once=", "known=")
"""What may change between two sessions of a run: flags, each with a value, and settings."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@dataclass(frozen=True)
class Planned:
    name: str
    model: str
    answers: int
    """For each task: what it costs."""
    options: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    text: str
    base: str
    other: str
    """Names of runs. The claim holds where the other has more."""


CLAIMS = (
    Claim("Skills at inference help", GREEDY, SELECTOR),
    Claim("The selector beats BM25 alone", BM25, SELECTOR),
    Claim("Joint training beats writing alone", WRITE_ONLY, RL),
    Claim("More serial turns beat more samples", PARALLEL, SERIAL),
)
BESIDE = (
    Claim("Skills by BM25 alone help", GREEDY, BM25),
    Claim("RL improves on the cold start", GREEDY, RL),
)
"""No claims of the paper, and told by the same runs."""


def planned(model: str, rl_model: str, write_only_model: str) -> list[Planned]:
    """By importance. What costs most comes last and takes what the others left."""
    likeliest, sampled = "temperature=0", f"temperature={TEMPERATURE}"
    found = [
        Planned(GREEDY, model, 1, (likeliest,)),
        Planned(SELECTOR, model, 1, (likeliest, "library=starter", "selection=selector")),
        Planned(BM25, model, 1, (likeliest, "library=starter", "selection=bm25")),
    ]
    found += [Planned(name, spec, 1, (likeliest,)) for name, spec in ((RL, rl_model), (WRITE_ONLY, write_only_model)) if spec]
    return [
        *found,
        Planned(PARALLEL, model, ANSWERS, (sampled, f"samples={ANSWERS}", "turns=1")),
        Planned(SERIAL, model, ANSWERS, (sampled, "samples=1", f"turns={ANSWERS}")),
    ]


@app.command("run", context_settings={"allow_extra_args": True})
def run_command(
    call: typer.Context,
    tasks: Annotated[list[str], typer.Option(metavar="DIR", help="As bottega bench takes them; may be given often.")],
    model: Annotated[str, typer.Option(metavar="SPEC", help="The model of most runs, as --backbone takes it.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The runs go below it.")],
    rl_model: Annotated[str, typer.Option(metavar="SPEC", help="A model whose roles were trained together by RL.")] = "",
    write_only_model: Annotated[str, typer.Option(metavar="SPEC", help="One that RL taught to write only.")] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cuda",
    limit: Annotated[int | None, typer.Option(min=1, help="So many tasks, at even distances over all of them.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Kernels built and tried side by side.")] = 12,
    at_once: Annotated[int, typer.Option(min=1, help="Samples under way; of more of them, fewer are whole at a stop.")] = 32,
    minutes: Annotated[float, typer.Option(min=0.1, help="To share out; the last stop may take some seconds more.")] = 10,
    only: Annotated[list[str] | None, typer.Option(help="Only this run; may be given often.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the plan and the commands, and end.")] = False,
) -> None:
    """Make the runs that the claims need. What stands after -- goes to every bottega bench, and overrules what stands here."""
    plan = planned(model, rl_model, write_only_model)
    unknown = sorted(set(only or ()) - {each.name for each in plan})
    if unknown:
        raise UsageError(f"there is no run {', '.join(unknown)}: {', '.join(each.name for each in plan)}")
    runs = [each for each in plan if not only or each.name in only]
    every = (*JUDGED, *((f"limit={limit}",) if limit else ()), "--device", device, f"workers={workers}")
    every = (*every, f"at_once={at_once}", *call.args)

    def command(each: Planned) -> tuple[str, ...]:
        earlier = known([out / one.name for one in plan[: plan.index(each)]])
        return ("bench", *tasks, "--backbone", each.model, *each.options, *every, *earlier, "--out", str(out / each.name))

    for each in runs:
        _same_terms(out / each.name, command(each))
    left = [each for each in runs if not (out / each.name / LEADERBOARD).is_file()]
    for each in runs:
        told = f"about {share(each, left, minutes):.1f} min" if each in left else "done"
        print(f"# {each.name}: {told}, {each.answers} {'answers' if each.answers > 1 else 'answer'} a task\n"
              f"{shlex.join(('bottega', *command(each)))}", flush=True)  # fmt: skip
    if show:
        return
    begun, failed = time.monotonic(), []
    while left:
        each = left[0]
        given = share(each, left, minutes - (time.monotonic() - begun) / 60)
        left, start = left[1:], time.monotonic()
        code, stopped = _bench(command(each), 60 * given)
        took = f"{(time.monotonic() - start) / 60:.1f} min"
        if code not in (0, 4) and not stopped:
            failed.append(each.name)
            print(f"{each.name}: ended with exit code {code} after {took}", file=sys.stderr, flush=True)
            continue
        print(f"{each.name}: {'stopped' if stopped else 'ended'} after {took}; {_come(out / each.name)}", flush=True)
    if failed:
        raise BottegaError(f"{', '.join(failed)} failed; the same call tries again")


@app.command("table")
def table_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `run` wrote.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="DIR/claims.md if left out.")] = None,
    baseline: Annotated[str, typer.Option(help="What faster means: than eager, or than compile.")] = "eager",
) -> None:
    """Write the claims with their figures as Markdown."""
    runs = {path.parent.name: read_run(path.parent) for path in sorted(folder.glob("*/bench.json"))}
    if not runs:
        raise UsageError(f"{folder}: no benchmark run is below it")
    text = page(runs, baseline)
    (out or folder / "claims.md").write_text(text, encoding="utf-8")
    print(text, end="")


def known(folders: list[Path]) -> tuple[str, ...]:
    """The setting for those of these runs that have a verdict by now."""
    begun = [folder for folder in folders if (folder / "bench.json").is_file() and read_run(folder).attempts]
    return (f"known={json.dumps(list(map(str, begun)))}",) if begun else ()


def share(one: Planned, left: list[Planned], minutes: float) -> float:
    """Its minutes, of those that are left for all that are left."""
    return max(0.0, minutes) * (one.answers + STARTING) / sum(each.answers + STARTING for each in left)


def page(runs: dict[str, BenchRun], baseline: str) -> str:
    """Everything that the runs tell of the claims."""
    pairs = {
        claim: pairing(runs[claim.base], runs[claim.other], baseline)
        for claim in (*CLAIMS, *BESIDE)
        if claim.base in runs and claim.other in runs
    }
    rows = [row for claim in (*CLAIMS, *(each for each in BESIDE if each in pairs)) for row in _rows(claim, pairs.get(claim))]
    lines = [
        f"{_where(runs)}. Tasks are those of which both runs have every answer; shares are of these tasks, and of several answers",
        "any one counts. In brackets 95 % intervals of the difference, by drawing tasks in pairs; *gained* and *lost* are tasks that",
        "changed, with the chance of so uneven a division if neither run were better (sign test). A claim holds where the interval",
        "lies above 0, does not hold where it lies below 0, and cannot be told where it contains 0.",
        f"Faster is faster than {baseline}.",
        "",
        "| claim | tasks | measure | base | claimed better | difference in points | gained, lost | |",
        "|---|---:|---|---:|---:|---:|---:|---|",
        *rows,
    ]
    if claim := next((each for each in pairs if each.base == PARALLEL and each.other == SERIAL), None):
        lines += ["", *_curve(curve(pairs[claim]))]
    lines += ["", *(f"- {note}" for note in _notes(runs, pairs, baseline)), "", "```sh"]
    return "\n".join([*lines, *(read_head(run.folder).get("command", "") for run in runs.values()), "```", ""])


def _rows(claim: Claim, pair: Pairing | None) -> list[str]:
    name = f"{claim.text} (`{claim.other}` against `{claim.base}`)"
    if pair is None or not pair.tasks:
        return [f"| {name} | 0 | | | | | | {'not measured' if pair is None else 'cannot be told'} |"]
    found = findings(pair.first, pair.second)
    return [
        f"| {name if not number else ''} | {pair.tasks if not number else ''} | {each.measure} | {_rate(each.base, pair.tasks)} | "
        f"{_rate(each.other, pair.tasks)} | {_points(each)} | {_changed(each)} | {each.word} |"
        for number, each in enumerate(found)
    ]


def _curve(steps: list[Curve]) -> list[str]:
    found = [
        "By number of answers: the best of so many samples (expected over every choice of them), and the best of so many turns in a row.",
        "",
        "| answers | measure | samples | turns | difference in points | |",
        "|---:|---|---:|---:|---:|---|",
    ]
    return found + [
        f"| {step.answers if not number else ''} | {each.measure} | {each.base:.0%} | {each.other:.0%} | {_points(each)} | {each.word} |"
        for step in steps
        for number, each in enumerate(step.findings)
    ]


def _notes(runs: dict[str, BenchRun], pairs: dict[Claim, Pairing], baseline: str) -> list[str]:
    found = [f"`{name}`: {_come(run.folder, run)}." for name, run in runs.items()]
    for claim in pairs:
        found += [
            f"`{claim.other}` against `{claim.base}`: {note}."
            for note in incomparable(runs[claim.base], runs[claim.other], baseline)
        ]
    return found


def _come(folder: Path, run: BenchRun | None = None) -> str:
    """How far a run came, and whether its writer was shown any card."""
    if not (folder / "bench.json").is_file():
        return "it had not begun"
    run = run or read_run(folder)
    told = f"{len(tried(run))} of {len(run.tasks)} tasks have every answer"
    if run.settings.get("library"):
        told += f"; {sum(bool(each.skills) for each in run.attempts)} of {len(run.attempts)} answers were shown a skill"
    return told


def _where(runs: dict[str, BenchRun]) -> str:
    facts = {
        (str(run.fingerprint.get("gpu") or run.fingerprint.get("cpu", "unknown machine")).split(",")[0], read_head(run.folder).get("begun", "")[:10])
        for run in runs.values()
    }  # fmt: skip
    return "; ".join(f"{machine}, {day}" for machine, day in sorted(facts))


def _rate(value: float, tasks: int) -> str:
    return f"{value * tasks:.0f} ({value:.0%})"


def _points(one: Finding) -> str:
    ends = "" if one.low is None or one.high is None else f" ({100 * one.low:+.0f} to {100 * one.high:+.0f})"
    return f"{100 * one.difference:+.1f}{ends}"


def _changed(one: Finding) -> str:
    return f"{one.gained}, {one.lost} (p = {sign_test(one.gained, one.lost):.2g})"


def _same_terms(folder: Path, command: tuple[str, ...]) -> None:
    """A run that was begun with other words is another run, whole or not."""
    if not (folder / "bench.json").is_file():
        return
    begun = shlex.split(read_head(folder).get("command", ""))[1:]
    if _bound(begun) != _bound(command):
        raise UsageError(f"{folder}: was begun as {shlex.join(begun)}; give another --out")


def _bound(command: Any) -> list[str]:
    words = list(command)
    free = {place for place, word in enumerate(words) if word in FREE}
    return [
        word
        for place, word in enumerate(words)
        if place not in free and place - 1 not in free and not word.startswith(FREE_KEYS)
    ]


def _bench(command: tuple[str, ...], seconds: float) -> tuple[int, bool]:
    """The exit code, and whether the time was up. Signals reach the child through here only, so that it gets one."""
    child = subprocess.Popen([sys.executable, "-m", "bottega.app.cli", *command], start_new_session=True)
    try:
        return child.wait(max(seconds, 1.0)), False
    except subprocess.TimeoutExpired:
        return _end(child), True
    except KeyboardInterrupt:
        _end(child)
        raise


def _end(child: subprocess.Popen[bytes]) -> int:
    child.send_signal(signal.SIGINT)
    try:
        return child.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return child.wait()


def _terminated(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except BottegaError as error:
        print(f"claims.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
