"""One kernel on the trusting bench, up to where it would be timed: built, compiled, tried on the task's draws, and looked at.

What is found goes into the same plain dictionary that the judge's referee fills, so that the judge's own `decide` and `diagnose` say what
it means, in the words that models learn to read.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bottega.core.candidate import Candidate
from bottega.core.foreign_text import printable
from bottega.data.trusted.apart import Apart
from bottega.data.trusted.room import TaskRoom
from bottega.data.trusted.side import Crowded, OwnSide
from bottega.data.trusted.trust import NOTE
from bottega.judge.coverage import Coverage, claimed_kernels, gpu_coverage
from bottega.judge.cupti import ProfilerMissing, kernel_times
from bottega.judge.failure import describe
from bottega.judge.inputs import Drawn
from bottega.judge.loading import import_source, load_state, read_initial, set_precision
from bottega.judge.runner import SideFailed
from bottega.judge.trials import run_trial

PROFILED_CALLS = 4

Say = Callable[[str], None]
"""Told the name of every stage as it begins."""


class Examination:
    def __init__(self, room: TaskRoom, candidate: Candidate, lease: Apart, folder: Path, say: Say) -> None:
        self.room, self.candidate, self.lease, self.folder, self.say = room, candidate, lease, folder, say
        self.side: OwnSide | None = None
        self.found: dict[str, Any] = {
            "trials": [],
            "violations": [],
            "stages": {},
            "notes": [NOTE],
            "facts": room.known.facts,
            "oracle": room.oracle.kind,
        }
        self._name, self._since = "building", time.monotonic()

    @property
    def right(self) -> bool:
        """Whether there is nothing left but to time it."""
        found = self.found
        return self.side is not None and not (found.get("failure") or found.get("problem") or found["violations"])

    def run(self, profiled: bool) -> None:
        try:
            self._stages(profiled)
        except SideFailed as failure:
            self._mark(self._name)
            self.fail(failure)
        except torch.OutOfMemoryError:
            raise Crowded from None
        self.found["oracle"] = self.room.oracle.kind

    def fail(self, failure: SideFailed) -> None:
        self.found["failure"] = {"kind": failure.kind, "text": failure.text, **failure.detail}

    def _stages(self, profiled: bool) -> None:
        if self.room.device == "cpu":  # a compiler beside a timer would be in its way
            with self._shared():
                self.side = self._build()
        else:
            self.side = self._build()
        with self._shared():
            self._stage("trying")
            self._trials()
            self._mark("trying")
            if profiled and self.right and self.room.device != "cpu":
                self._stage("profiling")
                self.found["coverage"] = self._coverage().to_json()
                self._mark("profiling")

    def _build(self) -> OwnSide:
        """As the judge's player builds it: import, construct with the seed, load the parameters if their names fit."""
        self._stage("building")
        room, reference = self.room, self.room.reference
        set_precision(room.settings.precision)
        module = _step("import", "", lambda: _imported(self.candidate.source, self.folder))
        path = str(module.__file__ or "")
        factory = getattr(module, "ModelNew", None)
        if factory is None:
            raise SideFailed("failure", describe("import", NameError("the file defines no ModelNew"), path))
        torch.manual_seed(reference.seed)
        initial = _step("construct", path, lambda: read_initial(reference.initial_pickle, module))
        built: Any = _step("construct", path, lambda: factory(*initial.positional, **initial.keywords))
        if not isinstance(built, torch.nn.Module):
            raise SideFailed("failure", describe("construct", TypeError("ModelNew is not a torch.nn.Module"), path))
        mismatch = _step("state", path, lambda: load_state(built, reference.state_bytes("loaded"), bool(reference.guessable)))
        if room.settings.training is not None:
            built.train(room.settings.training)
        side = OwnSide("candidate", _step("construct", path, lambda: built.to(room.device)), room.device, path)
        self.found["mismatch"] = printable(str(mismatch)[:500])
        self.found["parameters"] = "seeded" if mismatch else "loaded"
        self._mark("building")
        return side

    def _trials(self) -> None:
        assert self.side is not None
        found = self.found
        set_precision(self.room.settings.precision)
        terms = self.room.terms(found["parameters"])
        for kept in self.room.draws(found["parameters"]):
            trial = run_trial(kept.draw, kept, kept, self.side, kept.drawn.variant, terms, known=self.room.known)  # type: ignore[arg-type]
            found["trials"].append(trial.to_json())
            found["violations"].extend(v for v in map(list, trial.violations) if v not in found["violations"])
            if trial.problem or trial.violations:
                found["problem"] = f"on {trial.variant} inputs: {trial.problem}" if trial.problem else ""
                found["precision_suspect"] = trial.precision_suspect
                break
        self.side.forget()

    def _coverage(self) -> Coverage:
        assert self.side is not None
        side, drawn = self.side, self.room.draws(self.found["parameters"])[0].drawn
        claimed = claimed_kernels(self.candidate.source, self.candidate.language)

        def run() -> None:
            for _ in range(PROFILED_CALLS):
                call(side, drawn, copied=bool(self.room.known.mutates))

        try:
            times = kernel_times(run, torch.cuda.synchronize, PROFILED_CALLS)
        except ProfilerMissing as error:
            return Coverage(None, f"not measured: {error}", claimed)
        ranked = sorted(times.items(), key=lambda item: -item[1][0])[:64]
        rows = [[name[:300], total / PROFILED_CALLS, count / PROFILED_CALLS] for name, (total, count) in ranked]
        return gpu_coverage(rows, self.candidate.source, claimed)

    @contextmanager
    def _shared(self) -> Iterator[None]:
        self._stage("waiting")
        with self.lease.shared():
            self._mark("waiting")
            yield

    def _stage(self, name: str) -> None:
        self.say(name)
        self._name = name
        self._since = time.monotonic()

    def _mark(self, name: str) -> None:
        """What was waited and compiled since the last mark is no part of the stage itself."""
        stages, now = self.found["stages"], time.monotonic()
        apart, self.lease.spent = self.lease.spent, Counter()
        own = {name: now - self._since - sum(apart.values())} if name != "waiting" else {}
        for what, seconds in {**apart, **own}.items():
            stages[what] = round(stages.get(what, 0.0) + seconds, 4)
        self._since = now


def call(side: OwnSide, drawn: Drawn, copied: bool) -> Any:
    """One call without a look at what comes out. Inputs are copied only where a call changes them."""
    tensors = [tensor.clone() for tensor in drawn.tensors] if copied else drawn.tensors
    with torch.no_grad(), side.context:
        return drawn.call(side.module, tensors)


def _imported(source: str, folder: Path) -> Any:
    """From a folder of its own: a kernel that is still to be timed may read its own file again."""
    folder.mkdir(parents=True, exist_ok=True)
    before, path = os.environ.get("TMPDIR"), list(sys.path)
    os.environ["TMPDIR"] = str(folder)
    try:
        return import_source(source, "candidate")
    finally:
        sys.path[:] = path
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def _step(stage: str, path: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except torch.OutOfMemoryError:
        raise
    except BaseException as error:
        raise SideFailed("failure", describe(stage, error, path)) from None
