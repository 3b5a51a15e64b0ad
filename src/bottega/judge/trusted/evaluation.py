"""One candidate in a worker, up to where it would be timed: build, trials, coverage.

The report has the fields of the judge's own `Evaluation`, so that the judge's `decide` and `diagnose` turn it into a verdict.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bottega.core.candidate import Candidate
from bottega.core.foreign_text import printable
from bottega.judge.call_options import CallOptions
from bottega.judge.coverage import DECOY_BELOW, Coverage, claimed_kernels, gpu_coverage, works_beside_products
from bottega.judge.cupti import ProfilerMissing, kernel_rows
from bottega.judge.failure import describe
from bottega.judge.loading import set_precision
from bottega.judge.module_host import BuiltModule, StageFailed, build_module
from bottega.judge.trials import CorrectnessTrial, add_trial, run_trial
from bottega.judge.trusted import NOTE
from bottega.judge.trusted.runner import InProcessRunner, OutOfDeviceMemory
from bottega.judge.trusted.task import ReferenceCall, TrustedTask
from bottega.judge.worker_link import RunnerFailed

PROFILED_CALLS = 4


class TrustedEvaluation:
    def __init__(self, task: TrustedTask, candidate: Candidate, folder: Path) -> None:
        self.task, self.candidate, self.folder = task, candidate, folder
        self.runner: InProcessRunner | None = None
        self.report: dict[str, Any] = {
            "trials": [],
            "violations": [],
            "stages": {},
            "notes": [NOTE],
            "facts": task.profile.facts,
            "oracle": task.oracle.kind,
        }

    @property
    def correct(self) -> bool:
        """Whether timing is all that is left."""
        report = self.report
        return self.runner is not None and not (report.get("failure") or report.get("problem") or report["violations"])

    def run(self, profiled: bool) -> None:
        """Raises `OutOfDeviceMemory` and `InvalidTask`; every failure of the candidate goes into the report."""
        try:
            self._run_stages(profiled)
        except RunnerFailed as failure:
            self.fail(failure)
        except torch.OutOfMemoryError:
            raise OutOfDeviceMemory from None
        self.report["stages"] = self.task.sharing.take_seconds()
        self.report["oracle"] = self.task.oracle.kind

    def fail(self, failure: RunnerFailed) -> None:
        self.report["failure"] = {"kind": failure.kind, "text": failure.text, **failure.detail}

    def _run_stages(self, profiled: bool) -> None:
        sharing, device = self.task.sharing, self.task.device
        with (
            sharing.shared() if device == "cpu" else nullcontext(),
            sharing.stage("building"),
        ):  # a compiler would disturb a timer
            self.runner = self._build()
        with sharing.shared():
            with sharing.stage("trying"):
                self._run_trials(self.runner)
            if profiled and self.correct and device != "cpu":
                with sharing.stage("profiling"):
                    self.report["coverage"] = self._coverage(self.runner).to_json()

    def _build(self) -> InProcessRunner:
        """As the judge's worker builds it: import, construct with the seed, load the parameters if their names fit."""
        task, reference = self.task, self.task.reference
        set_precision(task.settings.precision)
        payload = {
            "source": self.candidate.source,
            "name": "candidate",
            "class_name": "ModelNew",
            "initial": reference.initial_pickle,
            "seed": reference.seed,
            "state": task.parameters,
            "by_order": bool(reference.guessable),
            "training": task.settings.training,
        }
        try:
            built = _built_in(self.folder, payload, task.device)
        except StageFailed as failure:
            if isinstance(failure.cause, torch.OutOfMemoryError):
                raise failure.cause from None
            raise RunnerFailed("failure", describe(failure.stage, failure.cause, failure.path)) from None
        self.report["mismatch"] = printable(str(built.mismatch)[:500])
        self.report["parameters"] = "seeded" if built.mismatch else "loaded"
        return InProcessRunner("candidate", built.module, task.device, str(built.file.__file__ or ""))

    def _run_trials(self, runner: InProcessRunner) -> None:
        task, state = self.task, self.report["parameters"]
        set_precision(task.settings.precision)
        options = task.options(state)
        for number, call in enumerate(list(task.reference_calls(state))):
            trial = self._trial(call, runner, options)
            while trial.skipped and not trial.violations and (weaker := task.draw_weaker(state, number)):
                trial = self._trial(weaker, runner, options)
            if add_trial(self.report, trial):
                break
        runner.forget()

    def _trial(self, call: ReferenceCall, runner: InProcessRunner, options: CallOptions) -> CorrectnessTrial:
        variant = call.inputs.variant
        extreme = self.task.reference.inputs.strength(variant).extreme
        return run_trial(call.draw, call, call, runner, variant, options, profile=self.task.profile, extreme=extreme)  # type: ignore[arg-type]

    def _coverage(self, runner: InProcessRunner) -> Coverage:
        inputs, copied = self.task.reference_calls(self.report["parameters"])[0].inputs, bool(self.task.profile.mutates)
        source, claimed = self.candidate.source, claimed_kernels(self.candidate.source, self.candidate.language)

        def profile(profiled: InProcessRunner) -> list[list[Any]]:
            def run() -> None:
                for _ in range(PROFILED_CALLS):
                    profiled.call(inputs, copied)

            return kernel_rows(run, torch.cuda.synchronize, PROFILED_CALLS)

        try:
            rows = profile(runner)
            coverage = gpu_coverage(rows, source, claimed)
            if coverage.own and coverage.share is not None and coverage.share < DECOY_BELOW:
                return replace(coverage, beside_products=works_beside_products(rows, source, profile(self.task.eager)))
            return coverage
        except ProfilerMissing as error:
            return Coverage(None, f"not measured: {error}", claimed)


def _built_in(folder: Path, payload: dict[str, Any], device: str) -> BuiltModule:
    """Built from a folder of its own: a candidate that is still to be timed may read its own file again."""
    folder.mkdir(parents=True, exist_ok=True)
    before, path = os.environ.get("TMPDIR"), list(sys.path)
    os.environ["TMPDIR"] = str(folder)
    try:
        return build_module(payload, device)
    finally:
        sys.path[:] = path
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
