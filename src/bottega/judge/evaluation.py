"""The evaluation of one candidate, from its build to its coverage: the stages in order, each of which may decide the outcome."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from bottega.core.errors import SandboxError
from bottega.core.foreign_text import printable, words_of
from bottega.judge.build_cache import LARGEST_ARCHIVE
from bottega.judge.call_options import CallOptions
from bottega.judge.coverage_stage import measure_coverage
from bottega.judge.evaluation_run import EvaluationRun, TaskContext
from bottega.judge.profile_stage import measure_profile
from bottega.judge.runner import Runner, on_all_cores
from bottega.judge.settings import Settings
from bottega.judge.time_limit import StageTimes, TimeBudget
from bottega.judge.timing import TimingStage
from bottega.judge.trials import REFERENCE_OUT_OF_MEMORY, CorrectnessTrial, add_trial, run_trial
from bottega.judge.variants import OF_INTEGERS, OF_LONG_SUMS, PARTS
from bottega.judge.worker_link import RunnerFailed

ENDLESS_S, ENDLESS_FACTOR = 30.0, 100.0
"""Seconds, and as many of its calls, that a reference may take for a variant on a CPU, where nobody but itself can be the cause: a loop that goes on
until something has converged may never end on other inputs, and a task has minutes to come up."""


@dataclass
class ExtensionArchive:
    """What torch's extension builder made of this source, or room for it: an anonymous file of the judge's (`LentArchive`)."""

    descriptor: int
    kept: bool
    """Whether it holds an archive, to be unpacked; else one is to be written there."""
    told: int | str | None = None
    """What the judge is told of it afterwards."""


def longest_reference_call(variant: str, device: str, alone_ms: float) -> float:
    """Seconds. On a GPU others, and a candidate too, may be why it takes long."""
    return math.inf if variant == "plain" or device != "cpu" else ENDLESS_S + ENDLESS_FACTOR * alone_ms / 1e3


class Evaluation:
    def __init__(
        self,
        context: TaskContext,
        runner: Runner,
        source: str,
        claimed: tuple[str, ...],
        settings: Settings,
        archive: ExtensionArchive | None = None,
    ):
        """`claimed`: names of the kernels that the text defines."""
        self.archive = archive
        found = {
            "trials": [],
            "violations": [],
            "stages": {},
            "notes": list(context.profile.notes),
            "facts": context.profile.facts,
        }
        self.run = EvaluationRun(context, runner, source, claimed, settings, TimeBudget(settings.timeout), found)
        self.timing = TimingStage(self.run)

    def evaluate(self) -> dict[str, Any]:
        try:
            self._stages()
        except RunnerFailed as failure:
            self.run.found["failure"] = {"kind": failure.kind, "text": failure.text, **failure.detail}
            if failure.kind != "died":
                # Beside a GPU it is ended when nobody is timed, and until then it must not work on.
                with suppress(SandboxError):
                    self.run.runner.control.freeze()
        except SandboxError:  # its supervisor does not answer
            self.run.found["failure"] = {"kind": "died", "text": ""}
        except torch.OutOfMemoryError:
            self.run.found["failure"] = {"kind": "failure", **REFERENCE_OUT_OF_MEMORY}
        self.run.found["oracle"] = self.run.context.oracle.kind
        return self.run.found

    def _stages(self) -> None:
        stages = StageTimes(self.run.found["stages"])
        if self.run.context.device == "cpu":
            with self.run.budget.sharing(self.run.context.lease):
                decided = self._build()
        else:
            decided = self._build()  # compiling does not touch the device
        stages.mark("build")
        if decided:
            return
        with self.run.budget.sharing(self.run.context.lease):
            decided = self._trials()
            ahead = [] if decided or not self.run.settings.timed else self.timing.draw_ahead()
        stages.mark("trials")
        if decided or not self.run.settings.timed:
            return
        with self.run.paused():
            self.run.found["unavailable"] = dict(self.run.context.await_baselines())
        with (
            self.run.budget.alone(self.run.context.lease),
            on_all_cores((*self.run.context.baselines.values(), self.run.runner)),
        ):
            stages.mark("waiting")
            decided = self.timing.run_timed_rounds(ahead)
            stages.mark("timing")
            if decided:
                return
            if self.run.context.device == "cpu":
                self._measure_coverage(stages)
                self.timing.time_without_candidate()
        self.run.found["conditions"] = self.run.context.device_control.conditions()
        if self.run.context.device != "cpu":
            with self.run.budget.sharing(self.run.context.lease):
                self._measure_coverage(stages)

    def _measure_coverage(self, stages: StageTimes) -> None:
        self.run.found["coverage"] = measure_coverage(self.run).to_json()
        if self.run.context.device != "cpu" and self.run.context.profile.large:
            self._record_memory()
        stages.mark("coverage")
        if self.run.settings.profile:
            self.run.found["profile"] = measure_profile(self.run)
            stages.mark("profile")

    def _record_memory(self) -> None:
        """Peak device memory by process; of candidate and baselines as their workers claim."""
        context, end = self.run.context, self.run.budget.end
        arenas = {
            id(arena): arena.capacity for runner in (*context.baselines.values(), self.run.runner) for arena in runner.arenas
        }
        self.run.found["memory"] = {
            "arenas": sum(arenas.values()),
            "referee": torch.cuda.max_memory_reserved(),
            **{name: runner.trim(end) for name, runner in (*context.baselines.items(), ("candidate", self.run.runner))},
        }

    def _build(self) -> bool:
        """Import and build the candidate and give it the reference's parameters; True when that decides the verdict."""
        context, end = self.run.context, self.run.budget.end
        archive = self.archive
        if archive is not None and archive.kept:
            self._restore(archive, end)
        reply = context.load(self.run.runner, self.run.source, "candidate", "ModelNew", end)
        if archive is not None and not archive.kept:
            self._harvest(archive, end)
        mismatch = printable(words_of(reply.get("mismatch") or "", 500))
        if mismatch and context.reference.guessable:
            names = ", ".join(sorted(context.reference.guessable)[:4])
            told = f"{mismatch}; {names} begin with values that anybody knows, so the reference's must be taken"
            self.run.found["violations"].append(["parameters_not_taken", told])
            return True
        context.use_state("seeded" if mismatch else "loaded", end)
        self.run.found["parameters"], self.run.found["mismatch"] = context.state, mismatch
        self.run.runner.attach(*context.buffers(), end)
        self.run.runner.extent = context.profile.watched_room
        self.run.runner.reads_memory = context.profile.reads_memory and context.device == "cpu"
        return False

    def _trials(self) -> bool:
        """The correctness trials; True when one of them decides the verdict."""
        context, found = self.run.context, self.run.found
        options = self.run.options(timed=False)
        inputs = context.reference.inputs
        inputs.restore()
        of_integers = OF_INTEGERS if inputs.has_discrete else ()
        for variant in (*self.run.settings.variants, *(OF_LONG_SUMS if context.profile.long_sums else ()), *of_integers):
            if variant in PARTS and not (variant in inputs.parts and "spiked" in self.run.accepted_variants()):
                continue
            trial = self._trial(variant, options)
            while trial.skipped and not trial.violations and inputs.weaken(variant):
                trial = self._trial(variant, options)
            if trial.errors and not trial.skipped:
                inputs.answered(variant)
            if add_trial(found, trial):
                return True
        return False

    def _trial(self, variant: str, options: CallOptions) -> CorrectnessTrial:
        context = self.run.context
        eager = context.baselines["eager"]
        extreme = context.reference.inputs.strength(variant).extreme
        return run_trial(
            context.draw,
            context.oracle,
            eager,
            self.run.runner,
            variant,
            options,
            profile=context.profile,
            extreme=extreme,
            most=longest_reference_call(variant, context.device, context.profile.alone_ms),
        )

    def _restore(self, archive: ExtensionArchive, deadline: float) -> None:
        try:
            self.run.runner.ask({"do": "restore"}, deadline, (archive.descriptor,))
        except RunnerFailed as failure:
            if failure.kind != "failure":
                raise
            archive.told = "damaged"

    def _harvest(self, archive: ExtensionArchive, deadline: float) -> None:
        reply = self.run.runner.ask({"do": "harvest", "capacity": LARGEST_ARCHIVE}, deadline, (archive.descriptor,))
        count = reply.get("bytes")
        archive.told = count if isinstance(count, int) else None
