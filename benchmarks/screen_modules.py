"""Modules that others wrote, screened: is there a draft of the compiler, and does it compute what the module does? Nothing is judged or timed.

    PYTHONPATH=src:benchmarks python3 benchmarks/screen_modules.py collect FOLDER --seconds 600
    PYTHONPATH=src:benchmarks python3 benchmarks/screen_modules.py run FOLDER --half A --seconds 600
    PYTHONPATH=src:benchmarks python3 benchmarks/screen_modules.py run FOLDER --half A --language triton --dtype bfloat16
    PYTHONPATH=src:benchmarks python3 benchmarks/screen_modules.py report FOLDER

`collect` builds `small_configurations` and writes each class's first call down as a task. Classes that differ in their family's name
alone count once. `run` writes two drafts of each, products left to torch and products of ours, and compares them with the module in fp64: right is
within four times eager's error, or 2e-5 (halves 4e-3). Triton runs under its interpreter. Both go on where they ended, and every module has a process
of its own with a time limit. Half A is to repair by; of half B `report` says only how many are right.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import re
import sys
import time
import traceback
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from figure import rows_in, say
from real_modules import Dtype, Folder, Language, Only, Processes, _line
from small_configurations import Called, families

from bottega.compiler.build_step import Refusal
from bottega.compiler.choices import Choices
from bottega.compiler.draft_compiler import draft
from bottega.compiler.model_class import with_model_class
from bottega.compiler.step_compiler import lower_task, nothing_left
from bottega.core.arguments import read_arguments
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.tasks.capture import task_of_call
from bottega.tasks.data_type import with_data_type

TASKS, SCREENED = "tasks.jsonl", "screened.jsonl"
RIGHT, LIMIT = {"float32": 2e-5, "bfloat16": 4e-3, "float16": 2e-3}, 4.0
WAYS = (Choices(), Choices(own=("product", "convolution", "attention", "grouped")))
WARM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.ones(4)]


def get_init_inputs():
    return []
"""
Half = Literal["A", "B", "both"]
Seconds = Annotated[float, typer.Option(min=1, help="Begin nothing after that; the same command goes on.")]
Patience = Annotated[float, typer.Option(min=1, help="Seconds of one family or module.")]

app = typer.Typer(add_completion=False, help=__doc__)


def half_of(name: str) -> str:
    """The same for ever, whatever else is screened."""
    return "AB"[zlib.crc32(name.encode()) % 2]


@app.command()
def collect(
    folder: Folder,
    packages: Annotated[str, typer.Option(help="Separated by commas.")] = "transformers,peft,torch",
    only: Only = "",
    each: Annotated[int, typer.Option(min=1, help="Classes of a family, at most.")] = 4,
    processes: Processes = 2,
    seconds: Seconds = 600.0,
    patience: Patience = 90.0,
) -> None:
    """Write the modules of installed packages as tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {row["family"] for row in rows_in(folder / TASKS)}
    wanted = [name for package in packages.split(",") for name in families(package)]
    missing = [name for name in wanted if name not in known and any(word in name for word in only.split(","))]
    missing.sort(key=lambda name: zlib.crc32(name.encode()))  # a part is drawn from all of them

    def written(name: str) -> list[dict[str, Any]]:
        tasks: dict[str, dict[str, Any]] = {}
        for call in Called.of(name):
            try:
                source = task_of_call(call.module, call.arguments, call.options, call.name).task.source
            except BottegaError:
                continue
            tasks.setdefault(call.text, {"family": name, "module": call.name, "text": call.text, "source": source})
        return list(tasks.values())[:each] or [{"family": name, "module": "", "text": "", "source": ""}]

    def kept(name: str, rows: list[dict[str, Any]] | str) -> None:
        found = [{"family": name, "module": "", "text": "", "source": ""}] if isinstance(rows, str) else rows
        _append(folder / TASKS, found)
        say(f"{name}: {rows if isinstance(rows, str) else ', '.join(row['module'] for row in rows)}")

    _apart(missing, written, kept, processes, seconds, patience)
    print(f"{len(_modules(folder))} modules of {len({row['family'] for row in _modules(folder)})} families")


@app.command()
def run(
    folder: Folder,
    language: Language = "cpp",
    dtype: Dtype = "float32",
    half: Annotated[Half, typer.Option(help="Of the modules.")] = "A",
    only: Only = "",
    again: Annotated[bool, typer.Option(help="What was not right before, once more.")] = False,
    processes: Processes = 2,
    seconds: Seconds = 600.0,
    patience: Patience = 150.0,
) -> None:
    """Write the drafts, run them and compare."""
    if language == "triton":
        os.environ["TRITON_INTERPRET"] = "1"
        sys.path.append(str(Path(__file__).parents[1] / "tests" / "compiler"))
        from triton_interpreted import stand_in

        stand_in()  # functions that the interpreter lacks, and bfloat16 rounded as a GPU rounds it
    last = {row["module"]: row for row in rows_in(folder / SCREENED) if (row["language"], row["dtype"]) == (language, dtype)}
    done = {name for name, row in last.items() if not again or row["outcome"] == "right"}
    chosen = {
        row["module"]: row["source"]
        for row in _modules(folder)
        if row["module"] not in done
        and half in ("both", half_of(row["module"]))
        and any(word in row["module"] for word in only.split(","))
    }

    def screened(name: str) -> dict[str, Any]:
        begun = time.monotonic()
        outcome, reason = screen(chosen[name], name, language, dtype)
        return {"outcome": outcome, "reason": reason, "seconds": round(time.monotonic() - begun, 1)}

    def kept(name: str, row: dict[str, Any] | str) -> None:
        found: dict[str, Any] = {"outcome": "no end", "reason": row, "seconds": patience} if isinstance(row, str) else row
        _append(folder / SCREENED, [{"module": name, "language": language, "dtype": dtype, **found}])
        say(f"{name}: {found['outcome']} {_line(found['reason'])}")

    torch.set_num_threads(1)  # a child of a process with threads of its own may wait for them without end
    screen(WARM, "warm", language, "float32")  # what tracing imports is imported once
    _apart(list(chosen), screened, kept, processes, seconds, patience)
    report(folder)


@app.command()
def report(folder: Folder) -> None:
    """Print the tables from what there is."""
    print("\n".join(table(rows_in(folder / SCREENED))))


def table(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    """How many came out how, by language, type and half; then what half A was refused for, the most frequent first."""
    latest = {(row["module"], row["language"], row["dtype"]): row for row in rows}
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for (name, language, dtype), row in latest.items():
        groups.setdefault((language, dtype, half_of(name)), Counter())[row["outcome"]] += 1
    outcomes = sorted({outcome for counts in groups.values() for outcome in counts})
    yield f"| language, type, half | {' | '.join(outcomes)} |"
    yield "|---|" + "---:|" * len(outcomes)
    for key, counts in sorted(groups.items()):
        yield f"| {', '.join(key)} | {' | '.join(str(counts[outcome]) for outcome in outcomes)} |"
    kinds: dict[tuple[str, str], list[str]] = {}
    for (name, _, _), row in latest.items():
        if row["outcome"] not in ("right", "eager fails") and half_of(name) == "A":
            kinds.setdefault((row["outcome"], kind_of(row["reason"])), []).append(name)
    yield from ("", "| half A | reason | modules | for example |", "|---|---|---:|---|")
    for (outcome, kind), names in sorted(kinds.items(), key=lambda item: -len(item[1])):
        yield f"| {outcome} | {kind} | {len(set(names))} | {', '.join(sorted(set(names))[:3])} |"


def kind_of(reason: str) -> str:
    """A refusal without what is its module's own: its label, numbers and names in quotes."""
    short = re.sub(r"^\S+: ", "", _line(reason))
    return re.sub(r"'[^']*'|\d[\d.e+-]*", "…", short)[:100]


def screen(source: str, name: str, language: str, dtype: str) -> tuple[str, str]:
    """The outcome of the worst of its drafts, with the reason."""
    source = source if dtype == "float32" else with_data_type(source, dtype, name)
    try:
        wanted, eager, model, inputs = _references(source)
    except Exception as error:
        return "eager fails", f"{type(error).__name__}: {error}"
    try:
        lowered = lower_task(with_model_class(Task(source, name)))
        drafts = list(dict.fromkeys(step.candidate.source for way in WAYS if (step := draft(lowered, language, way))))
        if not drafts:
            raise nothing_left(lowered, language)
    except Refusal as error:
        own = "no kernel of ours" in str(error)
        return ("torch's" if own else "refused"), str(error)
    except Exception as error:
        return "compiler fails", f"{type(error).__name__}: {error} {traceback.format_exc().splitlines()[-4]}"
    for text in drafts:
        try:
            new = _built(text, "candidate").ModelNew().eval()
            new.load_state_dict(model.state_dict())
            got = _leaves(_called(new, inputs))
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        if apart := differs(got, eager, wanted, RIGHT[dtype]):
            return "wrong", apart
    return "right", ""


def _references(source: str) -> tuple[list[torch.Tensor], list[torch.Tensor], Any, Any]:
    """What the module gives in fp64 (eager's own results where it cannot), in its own type, itself and its inputs."""
    task = _built(source, "task")
    torch.manual_seed(0)
    model, inputs = task.Model().eval(), task.get_inputs()
    eager = _leaves(_called(model, inputs))
    again = _leaves(_called(model, inputs))
    if any(not torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(eager, again)):
        raise ValueError("answers differently every time")
    try:
        exact = _leaves(_called(copy.deepcopy(model).double(), torch.utils._pytree.tree_map(_doubled, inputs)))
        same = [one.shape for one in exact] == [one.shape for one in eager]
    except Exception:
        same = False
    return (exact if same else eager), eager, model, inputs


def differs(got: list[torch.Tensor], eager: list[torch.Tensor], wanted: list[torch.Tensor], allowed: float) -> str:
    """Where a draft is further from the truth than eager is, in words; empty where it is not."""
    if len(got) != len(eager):
        return f"{len(got)} results for {len(eager)}"
    for number, (ours, theirs, truth) in enumerate(zip(got, eager, wanted)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"result {number} is {tuple(ours.shape)} {ours.dtype}, not {tuple(theirs.shape)} {theirs.dtype}"
        error, known = (_error(each, truth) for each in (ours, theirs))
        if not error <= max(allowed, LIMIT * known):
            return f"result {number} is {error:.1e} off, eager {known:.1e}"
    return ""


def _error(got: torch.Tensor, truth: torch.Tensor) -> float:
    """The root mean square of the distance over that of the truth. Infinities and NaN must lie in the same places."""
    if got.is_complex() or truth.is_complex():
        got, truth = (torch.view_as_real(each.to(torch.complex128).resolve_conj()) for each in (got, truth))
    one, other = got.double(), truth.double()
    odd = ~one.isfinite() | ~other.isfinite()
    if not torch.equal(one[odd].nan_to_num(), other[odd].nan_to_num()):
        return float("inf")
    apart, size = ((one - other)[~odd], other[~odd])
    return float(apart.square().mean().sqrt() / (size.square().mean().sqrt() + 1e-6)) if len(size) else 0.0


def _called(model: Any, inputs: Any) -> Any:
    given = read_arguments(copy.deepcopy(inputs), model.forward)
    with torch.no_grad():
        return model(*given.positional, **given.keywords)


def _leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _built(source: str, name: str) -> types.ModuleType:
    made = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def _modules(folder: Path) -> list[dict[str, Any]]:
    """Each distinct text once."""
    return list({row["text"]: row for row in reversed(rows_in(folder / TASKS)) if row["source"]}.values())[::-1]


def _append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _apart(
    names: Sequence[str],
    work: Callable[[str], Any],
    keep: Callable[[str, Any], None],
    processes: int,
    seconds: float,
    patience: float,
) -> None:
    """Each in a process of its own, which is ended after `patience`; what it returned, or in words why nothing, is kept."""
    context, end = multiprocessing.get_context("fork"), time.monotonic() + seconds
    waiting, running = list(reversed(names)), dict[str, Any]()

    def child(name: str, line: Any) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            line.send(work(name))
        except BaseException as error:
            line.send(f"{type(error).__name__}: {_line(str(error))}")

    while running or (waiting and time.monotonic() < end):
        while waiting and len(running) < processes and time.monotonic() < end:
            name, (here, there) = waiting.pop(), context.Pipe(False)
            process = context.Process(target=child, args=(name, there), daemon=True)
            process.start()
            there.close()
            running[name] = process, here, time.monotonic() + patience
        for name, (process, here, limit) in list(running.items()):
            if here.poll(0.05):
                try:
                    keep(name, here.recv())
                except EOFError:
                    keep(name, "its process ended")
            elif time.monotonic() > limit:
                keep(name, f"not ready in {patience:.0f} s")
            else:
                continue
            process.kill()
            process.join()
            del running[name]


if __name__ == "__main__":
    app()
