"""`bottega skills verify`: prove a card by attempts with it and without it, written by any program and judged here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import Field

from bottega.agents.prompts import Prompts
from bottega.app.configured import Given
from bottega.app.device_host import device_host
from bottega.app.terminal import print_json, say
from bottega.backbone.choose import open_backbone
from bottega.core.errors import UsageError
from bottega.core.setting_kinds import Cluster, Words, Workers
from bottega.core.settings import CommandSettings
from bottega.core.skill import Skill
from bottega.episodes.admission_sampler import AdmissionSampler
from bottega.episodes.backbone_defaults import prompt_style
from bottega.episodes.phases import share_device
from bottega.episodes.program_sampler import ProgramSampler
from bottega.judge.device_host import DeviceHost, DeviceJudge
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.skills.default_library import open_library
from bottega.skills.gate import Decision, Rules
from bottega.skills.library import Library
from bottega.skills.proving import Proof, prove
from bottega.tasks.load import load_task

KERNELS = "kernels"


class SkillsVerifySettings(CommandSettings):
    command: ClassVar[str] = "skills verify"
    flags: ClassVar[tuple[str, ...]] = ("task", "sibling", "writer", "backbone", "library", "device", "cluster", "json")

    task: str
    """The task that the card came from, or that shows it best: a file or builtin:NAME."""
    sibling: Words
    """Another task where it should help; may be given often."""
    writer: str | None = None
    """A program that reads {task, name, skills, seed, language, device} as JSON on standard input and prints a candidate."""
    backbone: str | None = None
    """Or the model that writes: embedded, local:PATH or server:MODEL@URL."""
    library: Path | None = None
    """The library's folder; yours if left out."""
    beside: Words = ()
    """Cards that attempts with and without this one get alike."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    cluster: Cluster = None
    baseline: str = "eager"
    """eager, compile, autotune or best."""
    threshold: float = 1.05
    """The factor that the gain must surely exceed."""
    rounds: int = 32
    """Pairs on each task, at most."""
    seed: int = 0
    """The first seed. Another seed is another proof."""
    workers: Workers = "auto"
    """Attempts side by side; auto is what the cores carry."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """JSON on standard output."""


def verify_command(given: Given[SkillsVerifySettings]) -> None:
    """Prove a card: attempts with it must surely beat attempts without it, on its task and on siblings.

        bottega skills verify NAME --task builtin:rms_norm_rows --sibling builtin:softmax --backbone embedded rounds=16

    Every attempt is kept: a run that is stopped goes on where it was when it is started again with the same options.
    Exit code 0 when the card is admitted, 1 when it is refused; the evidence is kept either way.
    """
    settings, device = given.settings, given.settings.device
    if len(given.words) != 1:
        raise UsageError("name one card")
    name, writer, backbone = given.words[0], settings.writer, settings.backbone
    size = "cpu" if device == "cpu" else "gpu"
    tasks = tuple(load_task(reference, size=size) for reference in (settings.task, *settings.sibling))
    rounds, baseline = settings.rounds, settings.baseline
    try:
        rules = Rules(threshold=settings.threshold, most_rounds=rounds, least_rounds=min(4, rounds), baseline=baseline)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if (writer is None) is (backbone is None):
        raise UsageError("say who writes the kernels: --writer COMMAND, or --backbone SPEC")
    with open_library(settings.library) as opened:
        others = tuple(opened.get(other) for other in settings.beside)
        proof = Proof(opened.get(name), tasks, rules, others, settings.seed, f"{device} {JUDGE_VERSION} {writer or backbone}")
        finished = len(opened.evidence.attempts(proof.id))
        concluded = opened.evidence.has(f"{proof.id}/{tasks[0].id}")
        if concluded and not settings.as_json:
            say("this proof was concluded before: it is told again and moves nothing; another --seed makes a new one")
        elif finished and not settings.as_json:
            say(f"going on: {finished} attempts of this proof are there already")
        with ExitStack() as stack:
            host = stack.enter_context(device_host(cluster=settings.cluster))
            judge = stack.enter_context(host.judge(device, workers=settings.workers, baselines=(baseline,), quick=True))
            pool = stack.enter_context(ThreadPoolExecutor(judge.workers + 1))  # one is written while others are judged
            sampler: ProgramSampler | AdmissionSampler
            if writer is not None:
                sampler = ProgramSampler(opened.folder / KERNELS, judge, writer, device, proof.skill.languages[0])
            else:
                sampler = stack.enter_context(_model_sampler(opened, judge, host, str(backbone), device, proof.skill, baseline))
            decision = prove(
                opened, proof, sampler.attempt, sampler.confirm, run=pool.map, progress=None if settings.as_json else _show
            )
        state = opened.get(name).state
    if settings.as_json:
        gain = decision.gain.__dict__
        facts = {"decision": decision.step, "reason": decision.reason, "gain": gain, "rounds": decision.rounds, "state": state}
        print_json({"name": name, "proof": proof.id, "concluded_before": concluded, **facts})
    else:
        say(f"{name}: {'admitted' if decision.step == 'admit' else 'refused'}: {decision.reason}")
    raise typer.Exit(0 if decision.step == "admit" else 1)


def _model_sampler(
    library: Library, judge: DeviceJudge, host: DeviceHost, spec: str, device: str, skill: Skill, baseline: str
) -> AdmissionSampler:
    client = open_backbone(spec)
    prompts = Prompts(prompt_style(spec))
    kernels = library.folder / KERNELS
    return AdmissionSampler(
        client,
        judge,
        prompts,
        host.facts(device),
        skill.languages[0],
        kernels,
        baseline=baseline,
        judged_on=device,
        shared=share_device(client, host),
    )


def _show(decision: Decision) -> None:
    say(f"round {decision.rounds}: {decision.step}: {decision.reason}")
