"""`bottega skills verify`: prove a card by attempts with it and without it, written by any program and judged here."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bottega.agents.prompts import Prompts
from bottega.app import skills_tables
from bottega.app.asking import prompt_style
from bottega.app.terminal import say
from bottega.backbone.choose import open_backbone
from bottega.core.candidate import Candidate
from bottega.core.errors import BackboneError, LibraryError, UsageError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.admission_sampler import Apprentice
from bottega.judge.device_facts import device_facts
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.judge.judge import Judge
from bottega.judge.machine import worker_count
from bottega.skills.gate import Decision, Rules
from bottega.skills.home import open_library
from bottega.skills.library import Library
from bottega.skills.proving import Proof, prove
from bottega.tasks.load import load_task


def verify_command(
    name: Annotated[str, typer.Argument(help="The card to prove.")],
    task: Annotated[str, typer.Option(help="The task that it was drawn from, or that shows it best: a file or builtin:NAME.")],
    sibling: Annotated[list[str], typer.Option("--sibling", help="Another task where it should help; may be given often.")],
    writer: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="A program that reads {task, name, skills, seed, language, device} as JSON on standard input and prints a candidate.",
        ),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Or the model that writes: embedded, local:PATH or server:MODEL@URL.")
    ] = None,
    library: Annotated[Path | None, typer.Option("--library", metavar="PATH", help="The library's folder.")] = None,
    beside: Annotated[list[str] | None, typer.Option("--beside", help="A card that both arms get; may be given often.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    baseline: Annotated[str, typer.Option(help="eager, compile, autotune or best.")] = "eager",
    threshold: Annotated[float, typer.Option(help="The factor that the gain must surely exceed.")] = 1.05,
    rounds: Annotated[int, typer.Option(help="Pairs on each task, at most.")] = 32,
    seed: Annotated[int, typer.Option(help="The first seed. Another seed is another proof.")] = 0,
    workers: Annotated[str, typer.Option(metavar="N", help="Attempts side by side; auto: what cores carry.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Prove a card: attempts with it must surely beat attempts without it, on its task and on siblings.

    Every attempt is kept: a run that is stopped goes on where it was when it is started again with the same options.
    Exit code 0 when the card is admitted, 1 when it is refused; the evidence is kept either way.
    """
    size = "cpu" if device == "cpu" else "gpu"
    tasks = tuple(load_task(reference, size=size) for reference in (task, *sibling))
    try:
        rules = Rules(threshold=threshold, most_rounds=rounds, least_rounds=min(4, rounds), baseline=baseline)
    except ValueError as error:
        raise UsageError(str(error)) from None
    places = worker_count(workers, device)
    if (writer is None) is (backbone is None):
        raise UsageError("say who writes the kernels: --writer COMMAND, or --backbone SPEC")
    with open_library(library) as opened:
        others = tuple(opened.get(other) for other in beside or ())
        proof = Proof(opened.get(name), tasks, rules, others, seed, f"{device} {JUDGE_VERSION} {writer or backbone}")
        finished = len(opened.evidence.attempts(proof.id))
        concluded = opened.evidence.has(f"{proof.id}/{tasks[0].id}")
        if concluded and not as_json:
            say("this proof was concluded before: it is told again and moves nothing; another --seed makes a new one")
        elif finished and not as_json:
            say(f"going on: {finished} attempts of this proof are there already")
        with ExitStack() as stack:
            judge = stack.enter_context(Judge(device, workers=places, baselines=(baseline,), quick=True))
            pool = stack.enter_context(ThreadPoolExecutor(places + 1))  # one is written while others are judged
            bench: Workbench | Apprentice
            if writer is not None:
                bench = Workbench(opened, judge, writer, device, proof.skill.languages[0])
            else:
                bench = stack.enter_context(_apprentice(opened, judge, str(backbone), device, proof.skill, baseline))
            decision = prove(opened, proof, bench.attempt, bench.confirm, run=pool.map, progress=None if as_json else _show)
        state = opened.get(name).state
    if as_json:
        gain = decision.gain.__dict__
        facts = {"decision": decision.step, "reason": decision.reason, "gain": gain, "rounds": decision.rounds, "state": state}
        skills_tables.print_json({"name": name, "proof": proof.id, "concluded_before": concluded, **facts})
    else:
        say(f"{name}: {'admitted' if decision.step == 'admit' else 'refused'}: {decision.reason}")
    raise typer.Exit(0 if decision.step == "admit" else 1)


def _apprentice(library: Library, judge: Judge, spec: str, device: str, skill: Skill, baseline: str) -> Apprentice:
    speaker = open_backbone(spec)
    prompts = Prompts(prompt_style(spec))
    kernels = library.folder / "kernels"
    return Apprentice(
        speaker, judge, prompts, device_facts(device), skill.languages[0], kernels, baseline=baseline, judged_on=device
    )


class Workbench:
    """Attempts by a foreign program. Its kernels are kept beside the library, so that they can be judged again."""

    def __init__(self, library: Library, judge: Judge, command: str, device: str, language: str) -> None:
        self.judge, self.device, self.language = judge, device, language
        try:
            self.command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--writer {command!r} is no command line: {error}") from None
        self.kernels = library.folder / "kernels"
        if not self.command:
            raise UsageError("--writer is empty; give the command that writes a candidate")

    def attempt(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        wanted = {"task": task.source, "name": task.name, "skills": [skill.to_json() for skill in skills], "seed": seed}
        answer = self._written(json.dumps({**wanted, "language": self.language, "device": self.device}))
        candidate = Candidate.from_source(answer)
        place = self.kernels / f"{candidate.id}.py"
        temporary = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            self.kernels.mkdir(exist_ok=True)
            if not place.exists():
                temporary.write_text(candidate.source, encoding="utf-8")
                temporary.replace(place)
        except OSError as error:
            raise LibraryError(
                f"{place}: a kernel cannot be kept: {error.strerror}; start the proof again when it can"
            ) from None
        return self.judge.judge(task, candidate)

    def confirm(self, task: Task, verdict: Verdict) -> Verdict:
        place = self.kernels / f"{verdict.candidate_id}.py"
        try:
            source = place.read_text(encoding="utf-8")
        except OSError as error:
            raise LibraryError(
                f"{place}: the kernel cannot be judged again: {error.strerror}; prove the card anew with another --seed"
            ) from None
        return self.judge.judge(task, Candidate.from_source(source), quick=False)

    def _written(self, question: str) -> str:
        try:
            done = subprocess.run(
                self.command, input=question, capture_output=True, encoding="utf-8", errors="replace", timeout=600, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackboneError(f"the writer {self.command[0]!r} gave no candidate: {error}") from None
        if done.returncode:
            raise BackboneError(
                f"the writer {self.command[0]!r} failed with exit code {done.returncode}: {done.stderr.strip()[-400:]}"
            )
        return done.stdout


def _show(decision: Decision) -> None:
    say(f"round {decision.rounds}: {decision.step}: {decision.reason}")
