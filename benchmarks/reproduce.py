"""The whole road on one machine, by the commands that a user would give: tasks, teaching, judging, examples, cold start, RL, the gate, packing,
evaluation.

Every stage leaves a mark with the hash of its commands when it is done, and every command goes on where it was stopped: the same call goes on.
Minutes are shared out before anything runs, as a run of the smallest counts took them on one H200. What they are planned with stands in `Sizes`.

    python benchmarks/reproduce.py --out reproduced --minutes 60              # one GPU
    python benchmarks/reproduce.py --out reproduced --show                    # the commands, and nothing else
    python benchmarks/reproduce.py --out dry --device cpu                     # every stage with the smallest counts, to see that it works
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

MODULES = Path(__file__).parent / "third_modules"
TAUGHT = Path(__file__).parent / "taught_modules.jsonl"
SHARES = {
    "tasks": 0.05, "teach": 0.12, "judge": 0.07, "examples": 0.11, "sft": 0.1, "rl": 0.2, "gate": 0.13, "pack": 0.03, "evaluate": 0.19,
}  # fmt: skip
"""Of the minutes."""
FEWEST_MINUTES = 12.0
"""What the smallest counts take."""
KINDS = {
    "mixed": (0, 0.25, ()),
    "chains": (1, 0.25, ("--families", "chains", "--levels", "2")),
    "formulas": (2, 0.1, ("--families", "formulas", "--levels", "2")),
    "networks": (3, 0.1, ("--levels", "3")),
    "written": (4, 0.3, ("--like", str(TAUGHT))),
}
"""Tasks to learn from: seed, share of them all, which ones. Chains are a layer with operators of every kind behind it, as a stranger
would write them; formulas are primitive operators in any order, against recognising what should be read; written ones are variations of what
people wrote."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything; of a GPU, what fits into the minutes."""

    tasks: int
    held_out: int
    gate_tasks: int
    workers: int
    judge_seconds: int
    language: str
    sft: tuple[str, ...]
    rl: tuple[str, ...]
    data: tuple[str, ...]
    gate: tuple[str, ...]
    bench: tuple[str, ...]
    max_mb: float
    check_rows: int
    """On which the packed model is compared with the trained one; none leaves that out."""


@dataclass(frozen=True)
class Stage:
    name: str
    minutes: float
    commands: tuple[tuple[str, ...], ...]
    known: str
    """What the minutes rest on."""

    def digest(self, before: str) -> str:
        """The same for the same commands after the same stages."""
        return hashlib.sha256(json.dumps([before, self.name, self.commands]).encode()).hexdigest()[:16]


def gpu_sizes(minutes: float, workers: int) -> Sizes:
    share = {name: part * minutes for name, part in SHARES.items()}
    evaluated = max(24, int(11 * share["evaluate"]))
    return Sizes(
        tasks=max(300, int(7 * (60 * share["teach"] - 40))),
        held_out=max(12, evaluated // 3),
        gate_tasks=max(24, int(20 * share["gate"])),
        workers=workers,
        judge_seconds=max(30, int(60 * share["judge"]) - 20),
        language="triton",
        sft=("--preset", "one-gpu", "data.epochs=10", "optimiser.warmup=25", "optimiser.schedule=cosine", "optimiser.least=0.05"),
        rl=(
            "--preset", "one-gpu", f"data.steps={max(1, int((60 * share['rl'] - 60) / 45))}", "rollout.tasks=8", "rollout.schemes=3",
            "rollout.samples=4", "rollout.turns=2", "rollout.summaries=2", "rollout.temperature=1.0", "rollout.max_tokens=1536",
            "rollout.timeout=20", f"rollout.judge_workers={workers}", "reward.bound=point", "optimiser.lr=2e-5",
            "checkpoint.every=5",
        ),
        # most tasks are taught and not judged: what a model of this size lacks is breadth
        data=("--teacher", "parts", f"teachers={workers}", "unjudged=true", "concise=0.9", "max_tokens=4000", "held_out=0.02"),
        gate=(
            "--teacher", "compiler", "trust_teacher=true", "mistakes=0", "audit=0", f"teachers={workers}",
            f"proofs={max(2, int(60 * share['gate'] / 60))}", "rounds=24",
        ),
        bench=(f"limit={evaluated}", "temperature=0", "max_tokens=1800", "timeout=25", "quick=true", "at_once=64"),
        max_mb=30.0,
        check_rows=128,
    )  # fmt: skip


def cpu_sizes() -> Sizes:
    """To see every stage work. Nothing is learned from so little."""
    return Sizes(
        tasks=6,
        held_out=2,
        gate_tasks=4,
        workers=1,
        judge_seconds=30,
        language="cpp",
        sft=("--preset", "laptop", "data.steps=1", "data.longest=1024", "data.pack_tokens=1024", "data.batch_tokens=1024"),
        rl=(
            "--preset", "laptop", "data.steps=1", "rollout.tasks=1", "rollout.schemes=0", "rollout.samples=2", "rollout.turns=2",
            "rollout.summaries=1", "rollout.max_tokens=48", "data.longest=2048", "data.pack_tokens=2048",
        ),
        data=("--teacher", "compiler", "teachers=1", "unjudged=true"),
        gate=("--teacher", "compiler", "trust_teacher=true", "mistakes=0", "audit=0", "teachers=1", "proofs=1", "rounds=4"),
        bench=("limit=1", "samples=1", "turns=1", "max_tokens=48", "quick=true"),
        max_mb=22.0,
        check_rows=0,
    )  # fmt: skip


def plan(out: Path, device: str, minutes: float, style: str, sizes: Sizes) -> list[Stage]:
    held_out, gate_tasks, data, cold, rl = (str(out / name) for name in ("tasks/held-out", "tasks/gate", "data", "sft", "rl"))
    kinds = {kind: how for kind, how in KINDS.items() if kind != "written" or device != "cpu"}  # people wrote them for a GPU
    tasks = {kind: str(out / "tasks" / kind) for kind in kinds}
    shipped, proofs = out / "shipped" / "bottega.difference", str(out / "proofs")
    where = ("--device", device)
    synth = ("tasks", "synth", *where, f"workers={sizes.workers}")
    unseen = (f"decontaminate={json.dumps([held_out, 'builtin', str(MODULES)])}",)
    told = ("--style", style, "tokenizer=embedded", "filter=false")
    build = (
        "data",
        "build",
        *tasks.values(),
        *where,
        "--languages",
        sizes.language,
        *sizes.data,
        *told,
        "--out",
        f"{data}/{sizes.language}",
    )
    # the same tasks in C++ too, which needs no GPU; a dry run is in C++ anyway
    builder = ("--teacher", "compiler", f"teachers={sizes.workers}", "unjudged=true")
    in_cpp = ("data", "build", tasks["mixed"], "--device", "cpu", "--languages", "cpp", *builder, *told, "--out", f"{data}/cpp")
    both = (in_cpp,) if sizes.language != "cpp" else ()
    joined = ("data", "join", *(f"{data}/{name}" for name in dict.fromkeys((sizes.language, "cpp"))), "--out", f"{data}/joined")
    gate = (
        "data",
        "build",
        gate_tasks,
        *where,
        "--languages",
        sizes.language,
        *sizes.gate,
        "--stage",
        "judge",
        "--out",
        proofs,
    )
    bench = ("bench", held_out, str(MODULES), "builtin", *where, f"workers={sizes.workers}", *sizes.bench, "seed=0")
    check = ("--check", f"{data}/joined", "--rows", str(sizes.check_rows), *where) if sizes.check_rows else ()
    model = (f"model.device={device}", 'model.freeze=["embed_tokens"]')  # a fifth of the weights, and of the file
    judged = [f"known={out / 'bench' / 'sft'}"]  # what the cold start and the packed model answer alike has one verdict
    runs = {
        "base": ("--backbone", "embedded:base"),
        "sft": ("--backbone", f"local:{cold}/model", f"style={style}"),
        "packed": ("--backbone", f"embedded:{shipped}", f"style={style}", *judged),
    }
    commands: dict[str, tuple[tuple[str, ...], ...]] = {
        "tasks": (
            (*synth, "--seed", "9", "--count", str(sizes.held_out), "--out", held_out),
            *(
                (
                    *synth, "--seed", str(seed), *which, "--count", str(max(2, int(part * sizes.tasks))), "filter=false", *unseen,
                    "--out", tasks[kind],
                )
                for kind, (seed, part, which) in kinds.items()
            ),
            (*synth, "--seed", "8", "--levels", "1,2", "--count", str(sizes.gate_tasks), "filter=false", *unseen, "--out", gate_tasks),
        ),
        "teach": tuple((*each, "--stage", "teach") for each in (build, *both)),
        # some tasks, for what of several endings is shown of the others
        "judge": (
            (
                *build, "--stage", "judge", "trust_teacher=true", "mistakes=0", "proofs=0", "steps=ends", f"seconds={sizes.judge_seconds}",
            ),
        ),
        "examples": (*((*each, "--stage", "examples") for each in (build, *both)), joined),
        "sft": (("sft", "--data", f"{data}/joined", "--out", cold, "model.name=embedded:base", *model, *sizes.sft),),
        "rl": (
            (
                "train", "--out", rl, *sizes.rl, f"model.name={cold}/model", *model, f"rollout.style={style}",
                f"data.tasks={json.dumps([tasks['mixed'], tasks['chains']])}",
            ),
        ),
        "gate": (gate,),
        "pack": (
            ("model", "pack", rl, "--out", str(shipped), "--max-mb", f"{sizes.max_mb:g}", *check),
            *(
                ("skills", "export", str(out / "shipped" / f"{name}.jsonl"), "--library", library, "--state", "admitted")
                for name, library in (("skills", f"{rl}/library"), ("taught", f"{proofs}/library"))
            ),
        ),
        "evaluate": tuple((*bench, *how, f"name={name}", "--out", str(out / "bench" / name)) for name, how in runs.items()),
    }  # fmt: skip
    known = {
        "tasks": "34 s for 300 tasks, most of them to start six commands",
        "teach": "83 s for 300 tasks in Triton and 120 in C++",
        "judge": "it ends by itself after its seconds",
        "examples": "76 s for 300 and 120 tasks",
        "sft": "56 s for ten rounds of 300 tasks, 268,000 tokens/s",
        "rl": "41 s a step on a device that nobody else uses, and a minute to begin",
        "gate": "90 s for two proofs",
        "pack": "21 s",
        "evaluate": "132 s for three runs of 24 tasks",
    }
    return [
        Stage(name, SHARES[name] * minutes, commands[name], known[name] if device != "cpu" else "a guess") for name in SHARES
    ]


def main(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where everything goes.")] = Path("reproduced"),
    device: Annotated[str, typer.Option(help="cuda, cuda:N; or cpu for a dry run with the smallest counts.")] = "cuda",
    minutes: Annotated[float, typer.Option(min=FEWEST_MINUTES, help="To share out; counts grow with them.")] = 60,
    style: Annotated[str, typer.Option(help="Of the prompts that are learned: terse, compact or full.")] = "terse",
    workers: Annotated[int, typer.Option(help="Kernels judged side by side; 0 for all cores but four.")] = 0,
    stage: Annotated[list[str] | None, typer.Option(help="Only this stage; may be given often.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the commands and end.")] = False,
) -> None:
    """Train and evaluate the embedded model from nothing. Started again with the same options, it goes on."""
    cpu = device == "cpu"
    minutes = FEWEST_MINUTES if cpu else minutes
    sizes = cpu_sizes() if cpu else gpu_sizes(minutes, workers or max(2, (os.cpu_count() or 4) - 4))
    stages = plan(out, device, minutes, style, sizes)
    unknown = sorted(set(stage or ()) - set(SHARES))
    if unknown:
        _end(2, f"there is no stage {', '.join(unknown)}: {', '.join(SHARES)}")
    if show:
        for each in stages:
            print(f"# {each.name}: about {each.minutes:.0f} min ({each.known})")
            print("\n".join(shlex.join(("bottega", *command)) for command in each.commands))
        return
    before = ""
    for each in stages:
        digest, mark = each.digest(before), out / "done" / f"{each.name}.json"
        done = json.loads(mark.read_text()) if mark.is_file() else None
        if done and done["hash"] != digest:
            _end(2, f"{each.name} was begun with other settings: give another --out")
        if done and done["seconds"]:
            print(f"{each.name}: done, {done['seconds'] / 60:.1f} min", flush=True)
        elif stage and each.name not in stage:
            if stages.index(each) < min(list(SHARES).index(name) for name in stage):
                _end(2, f"{each.name} comes first and is not done")
        else:
            print(f"{each.name}: about {each.minutes:.0f} min ({each.known})", flush=True)
            _mark(mark, digest, 0, restarted=done is not None)
            begun = time.monotonic()
            _run(each)
            _mark(mark, digest, max(0.001, time.monotonic() - begun), restarted=done is not None)
            print(f"  done in {(time.monotonic() - begun) / 60:.1f} min", flush=True)
        before = digest
    last = out / "done" / "evaluate.json"
    if last.is_file() and json.loads(last.read_text())["seconds"]:
        text = _results(out, device, minutes)
        (out / "results.md").write_text(text)
        print(f"results: {out / 'results.md'}")


def _run(stage: Stage) -> None:
    for command in stage.commands:
        words = list(command)
        if command[0] in ("sft", "train"):
            folder = Path(command[command.index("--out") + 1])
            if (folder / "model").is_dir():
                continue
            if (folder / "config.json").is_file():  # a resumed run has its settings
                words = [command[0], "--out", str(folder), "--resume"]
        print(f"  {shlex.join(('bottega', *words))}", flush=True)
        code = subprocess.run([sys.executable, "-m", "bottega.app.cli", *words], check=False).returncode
        if code:
            _end(code if code in (2, 130) else 1, f"{stage.name} ended with exit code {code}; the same call goes on with it")


def _mark(mark: Path, digest: str, seconds: float, restarted: bool) -> None:
    """No seconds: begun, and not done. `restarted`: they are those since the last start, of a stage that had been stopped."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "hash": digest,
        "seconds": round(seconds, 3),
        "restarted": restarted,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    draft = mark.with_suffix(".draft")
    draft.write_text(json.dumps(told))
    os.replace(draft, mark)


def _results(out: Path, device: str, minutes: float) -> str:
    runs = [str(out / "bench" / name) for name in ("base", "sft", "packed")]
    command = [sys.executable, "-m", "bottega.app.cli", "compare", *runs, "--markdown"]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    marks = {
        name: json.loads((out / "done" / f"{name}.json").read_text())
        for name in SHARES
        if (out / "done" / f"{name}.json").is_file()
    }
    restarted = {name: " since a restart" * bool(mark.get("restarted")) for name, mark in marks.items()}
    rows = [f"| {name} | {mark['seconds'] / 60:.1f}{restarted[name]} | {mark['at']} |" for name, mark in marks.items()]
    return "\n".join(
        [
            "# Results of one reproduction",
            "",
            f"`python benchmarks/reproduce.py --device {device} --minutes {minutes:g}`, {_machine(device)}, {datetime.now(UTC):%Y-%m-%d}.",
            "`base` is the embedded model untrained, `sft` after the cold start, `packed` after RL, as the file that ships,",
            "on tasks of its own (operator combinations that it was not taught), the modules by hand and the built-in suite.",
            "",
            told.stdout.strip() if not told.returncode else f"The runs could not be compared: {told.stderr.strip()}",
            "",
            "| stage | minutes | finished |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _machine(device: str) -> str:
    if device == "cpu":
        return f"{os.cpu_count()} cores ({platform.machine()})"
    import torch

    return torch.cuda.get_device_name(device)


def _end(code: int, why: str) -> None:
    print(f"reproduce: {why}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    typer.run(main)
