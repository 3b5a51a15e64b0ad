"""`bottega judge` and `bottega demo`: one verdict, or two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bottega.app.device_host import device_host
from bottega.app.terminal import Terminal, print_json, say
from bottega.core.candidate import Candidate
from bottega.core.errors import TaskError, UsageError
from bottega.core.foreign_text import one_line, printable
from bottega.core.verdict import Outcome, Verdict, interval_text
from bottega.judge.baselines import LEFT_OUT, parse_baselines
from bottega.judge.device_host import DeviceHost
from bottega.judge.judge import Judge
from bottega.languages import candidate_from
from bottega.tasks.load import load_task

SWITCHES = ("profile", "own_code")
COLOURS = {Outcome.FASTER: "green", Outcome.SAME: "cyan", Outcome.SLOWER: "yellow", Outcome.AMBIGUOUS: "cyan"}

Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Have it judged by this `bottega serve`; its token is read from BOTTEGA_TOKEN."
    ),
]
app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
demo_app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("judge")
def judge_command(
    task: Annotated[str, typer.Argument(help="A task file in KernelBench's format, or builtin:NAME.")],
    candidate: Annotated[Path, typer.Argument(help="A Python file that defines ModelNew.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[check=NAME|profile=true|own_code=true]...",
            help="check: a rule of your own, module:function, that may reject; several are allowed. profile: say where the time goes. "
            "own_code: you trust the kernel, so no interval is widened for what hostile code could hide.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N; cpu if left out, or the server's first.", show_default=False)
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            help="eager, compile, autotune, best (the fastest of them), or several by comma. The outcome speaks of the first."
        ),
    ] = "eager",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer input variants and timed rounds.")] = False,
    precision: Annotated[
        str, typer.Option(help="fp32 (strict), or what candidate and baseline may both use: tf32, bf16, fp16.")
    ] = "fp32",
    require_kernel: Annotated[
        float | None,
        typer.Option("--require-kernel", metavar="SHARE", help="Reject when own kernels do less than this share of the work."),
    ] = None,
    mode: Annotated[str, typer.Option(help="train, eval, or as-built.")] = "as-built",
    timeout: Annotated[float, typer.Option(help="Seconds of the candidate's own time, compiling included.")] = 120.0,
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Refuse to run where a part of the sandbox is missing.")
    ] = False,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")] = False,
) -> None:
    """Judge a candidate: is it right, is it faster, is it honest?

        bottega judge builtin:star_relu examples/star_relu.py --device cpu

    On a GPU that this machine does not have, by a server that does; BOTTEGA_TOKEN_FILE may name a file with the token:

        bottega judge builtin:star_relu kernel.py --server https://judge.example.org --device cuda

    With where the time goes, against what the device could do: threads and vectors on a CPU, each kernel's shape and occupancy on a GPU:

        bottega judge builtin:star_relu examples/star_relu.py profile=true

    Exit code 0 for a correct and honest candidate, 1 for any other verdict, 2 for wrong usage or an unusable task.
    """
    baselines = parse_baselines(baseline)
    if mode not in ("train", "eval", "as-built"):
        raise UsageError(f"unknown mode {mode!r}; use train, eval or as-built")
    checks = tuple(word.removeprefix("check=") for word in more or () if word.startswith("check="))
    others = [word for word in more or () if not word.startswith("check=")]
    known = {f"{name}={value}": (name, value == "true") for name in SWITCHES for value in ("true", "false")}
    if unknown := sorted(set(others) - known.keys()):
        raise UsageError(f"{unknown[0]!r}: after the candidate only check=NAME, profile=true and own_code=true may follow")
    switched = dict(known[word] for word in others)  # the last word counts, as with flags
    profile, own_code = (switched.get(name, False) for name in SWITCHES)
    wanted = read_candidate(candidate)
    options: dict[str, Any] = {
        "baselines": baselines,
        "quick": quick,
        "precision": precision,
        "require_kernel": require_kernel,
        "timeout": timeout,
        "training": {"train": True, "eval": False}.get(mode),
        "profile": profile,
    }
    if server is not None and (require_sandbox or checks or own_code):
        raise UsageError("--require-sandbox, own_code= and check= are the server's own settings: leave them out with --server")
    if server is None:
        options |= {"require_sandbox": require_sandbox, "checks": checks, "own_code": own_code}
    with device_host(server) as host:
        raise typer.Exit(_judged(host, device, task, candidate, wanted, options, as_json))


def _judged(
    host: DeviceHost, device: str | None, task: str, path: Path, wanted: Candidate, options: dict[str, Any], as_json: bool
) -> int:
    device = host.chosen(device)[0]
    size = "cpu" if device == "cpu" else "gpu"
    try:
        loaded = load_task(task, size=size)
    except TaskError as error:
        if as_json:
            print_json(Verdict(Outcome.INVALID_TASK, diagnosis=str(error)).to_json())
        say(f"bottega: {error}", err=True)
        return 2
    with host.judge(device, **options) as judge:
        console = Terminal(stderr=True)
        with console.status(Text(printable(f"judging {path.name} …"))) if console.is_terminal else console.capture():
            verdict = judge.judge(loaded, wanted)
    if as_json:
        print_json(verdict.to_json())
    else:
        show(verdict, str(path))
    if verdict.outcome is Outcome.INVALID_TASK:
        if as_json:
            say(f"bottega: {verdict.diagnosis}", err=True)
        return 2
    return 0 if verdict.outcome.accepted else 1


@demo_app.command("demo")
def demo_command() -> None:
    """Judge a shipped pair on the CPU, an honest kernel and a cheat, both in C++, and show the verdicts.

    bottega demo
    """
    folder = Path(__file__).parent / "demo"
    task = load_task(folder / "task.py")
    with Judge("cpu") as judge:
        for name in ("honest", "cheat"):
            say(f"judging {name}.py …")
            candidate = read_candidate(folder / f"{name}.py")
            verdict = judge.judge(task, candidate)
            show(verdict, f"{name}.py")
            expected = name == "honest"
            if verdict.outcome.accepted is not expected:
                say(f"bottega: the demo's {name} kernel got an unexpected verdict: {verdict.outcome}", err=True)
                raise typer.Exit(1)


def read_candidate(path: Path) -> Candidate:
    if path.is_dir():
        raise UsageError(f"{path}: a folder; judge one file of it, or all of them: bottega bench TASKS --candidates {path}")
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give a Python file that defines ModelNew")
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    return candidate_from(source, name=path.stem)


def show(verdict: Verdict, title: str) -> None:
    console = Terminal()
    colour = COLOURS.get(verdict.outcome, "red")
    table = Table.grid(padding=(0, 2))
    against = f" against {verdict.baseline}" if verdict.baseline else ""
    table.add_row("outcome", Text.assemble((verdict.outcome, f"bold {colour}"), against))
    if verdict.outcome is not Outcome.INVALID_TASK:  # which says nothing of the candidate
        table.add_row("correct", "yes" if verdict.correct else "no")
    for name, speedup in verdict.speedup.items():
        table.add_row(f"against {name}", f"{speedup.point:.3f}×  (99 % interval {interval_text(speedup.low, speedup.high, 3)})")
    if len(verdict.speedup) > 1:
        table.add_row("fastest baseline", verdict.fastest_baseline)
    for name, milliseconds in verdict.times_ms.items():
        table.add_row(f"{name} time", f"{milliseconds:.4g} ms")
    if verdict.error.get("candidate") is not None:
        table.add_row("error", f"{verdict.error['candidate']:.2g} (the reference's own: {verdict.error['reference']:.2g})")
    if verdict.coverage.get("share") is not None:
        table.add_row("own kernels", f"{verdict.coverage['share']:.0%} of the work")
    for name, text in profile_rows(verdict.profile):
        table.add_row(name, text)
    for violation in verdict.violations:
        table.add_row("violation", Text(violation.name, "red"))
    for note in verdict.notes:
        table.add_row("note", Text(note, "bold yellow" if note.startswith(LEFT_OUT) else ""))
    missing = verdict.sandbox.get("missing") or {}
    for part, reason in missing.items():
        table.add_row("sandbox", Text.assemble((f"no {part}", "yellow"), f": {reason}"))
    console.print(Panel(table, title=Text(one_line(title)), title_align="left", border_style=colour))
    if verdict.diagnosis:
        console.print(verdict.diagnosis)


def profile_rows(profile: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of a verdict's profile, what is known."""
    if profile.get("gbs"):
        yield "memory", f"{profile['gbs']:g} of {profile['peak_gbs'] or 0:g} GB/s"
    if profile.get("gflops"):
        yield "arithmetic", f"{profile['gflops']:g} of {profile['peak_gflops'] or 0:g} GFLOP/s"
    if profile.get("threads"):
        yield "threads", f"{profile['threads']:g} of {profile['cores']}"
    if profile.get("vector_share") is not None:
        widest = f", up to {profile['vector_bits']} bits" if profile["vector_bits"] else ""
        yield "vectors", f"{profile['vector_share']:.0%} of its instructions{widest}"
    if profile.get("cache_miss_share") is not None:
        yield "cache", f"{profile['cache_miss_share']:.0%} of accesses miss, {profile['cache_misses']:,} a call"
    for kernel in profile.get("kernels", ()):
        limit = f", {kernel['occupancy']:.0%} occupancy by {kernel['limited_by']}" if kernel["occupancy"] is not None else ""
        spilled = f", {kernel['local_bytes']} bytes spilled" if kernel["local_bytes"] else ""
        yield one_line(kernel["name"], 40), f"{kernel['us']:g} us, {kernel['registers']} registers{limit}{spilled}"
    if profile.get("gaps_us"):
        yield "launch gaps", f"{profile['gaps_us']:g} us"
    if profile.get("counters"):
        yield "counters", ", ".join(f"{name} {value:g}" for name, value in profile["counters"].items())
    elif profile.get("not_counted"):
        yield "counters", f"none: {profile['not_counted']}"
