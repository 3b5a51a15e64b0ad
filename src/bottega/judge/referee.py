"""The trusted process of a task: it draws inputs, owns the buffers, knows the truth and keeps the clock.

One referee serves one task and any number of candidates, one after the other. The task's own code runs here and in
the baselines; the candidate's never does. It reports what it measured; the judge decides what that means.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from statistics import median
from typing import Any, TypeVar

import torch

from bottega.judge.arena import Arena
from bottega.judge.clocks import combine
from bottega.judge.compare import Comparison, root_mean_square
from bottega.judge.coverage import claimed_kernels, cpu_coverage, gpu_coverage, merge_samples
from bottega.judge.device import DeviceCare
from bottega.judge.inputs import Drawn
from bottega.judge.keeper import Keeper
from bottega.judge.layout import ALIGNMENT, dtype_name, lay_out
from bottega.judge.lease import Lease
from bottega.judge.reference import InvalidTask, Reference, one_line, release
from bottega.judge.rounds import left_behind, run_rounds
from bottega.judge.settings import Settings
from bottega.judge.side import SHIFTS, Side, SideFailed, Turn
from bottega.judge.terms import Terms
from bottega.judge.trials import run_trial
from bottega.judge.wire import SPINS, Channel, Departed, payload_descriptor, read_payload

T = TypeVar("T")
PROFILED_CALLS = 4
SAMPLING_SECONDS = 0.25
SAMPLING_WINDOWS = 4
SMALL_OUTPUT = 64
"""Outputs with no more elements than this may cancel to almost nothing in one draw."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    referee = Referee(Channel.from_descriptor(descriptors[0]), Lease(descriptors[1:3]), str(arguments["device"]))
    try:
        referee.serve()
    except Departed:
        return


class Budget:
    """A candidate's own time. The clock stands still while the referee waits for the device."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def deadline(self) -> float:
        return self.end

    def forgive(self, since: float) -> None:
        self.end += time.monotonic() - since


class Referee:
    def __init__(self, channel: Channel, lease: Lease, device: str):
        self.channel = channel
        self.lease = lease
        self.device = device
        self.care = DeviceCare(device)
        self.baselines: dict[str, Side] = {}
        self.reference: Reference
        self.settings = Settings()
        self.state = "loaded"
        self.mutates: frozenset[int] = frozenset()
        self.reference_aliases = False
        self.spare: tuple[Arena, Arena] | None = None
        self.sizes = (0, 0)
        self.facts: dict[str, Any] = {}
        self.solo_ms = 0.0
        self.typical: tuple[float, ...] = ()

    def serve(self) -> None:
        handlers = {"open": self.open, "examine": self.examine, "fitness": self.fitness}
        while True:
            message = self.channel.receive()
            try:
                reply = handlers[message["do"]](message)
            except InvalidTask as reason:
                reply = {"invalid": str(reason)}
            except torch.OutOfMemoryError:
                release(self.device)
                reply = {"invalid": f"the task needs more memory than the {self.device} device has left; use smaller shapes"}
            except SideFailed as failure:
                reply = {
                    "invalid": f"the reference could not be run: {failure.detail.get('text') or failure.text or failure.kind}"
                }
            except Departed:
                raise
            except Exception as error:
                reply = {"broken": one_line(error), "trace": _trace(error)}
            self.channel.send(reply)

    def open(self, message: dict[str, Any]) -> dict[str, Any]:
        """Bring the task up: build it, start the baselines, learn its outputs, check that it answers alike twice."""
        descriptors = self.channel.claim_descriptors(1 + 2 * len(message["baselines"]))
        payload = pickle.loads(read_payload(descriptors[0]))
        self.settings = payload["settings"]
        deadline = time.monotonic() + self.settings.task_timeout
        for number, name in enumerate(message["baselines"]):
            end, reins = descriptors[1 + 2 * number : 3 + 2 * number]
            self.baselines[name] = self._side(name, end, reins)
        self.reference = Reference(payload["source"], self.device, self.settings.training)
        with self._shared():
            for name, side in self.baselines.items():
                side.listen(deadline)
                self._load(side, payload["source"], "task", "Model", deadline, compile_it=name == "compile", autocast=True)
            self._learn(deadline)
        return {"opened": True, "facts": self.facts}

    def examine(self, message: dict[str, Any]) -> dict[str, Any]:
        """Everything about one candidate: build, trials, rounds, coverage. Stops at the first thing that settles it."""
        payload_at, end, reins = self.channel.claim_descriptors(3)
        payload = pickle.loads(read_payload(payload_at))
        settings: Settings = payload["settings"]
        side = self._side("candidate", end, reins)
        found: dict[str, Any] = {"trials": [], "violations": [], "stages": {}, "notes": [], "facts": self.facts}
        try:
            self._examine(side, payload, settings, found)
        except SideFailed as failure:
            found["failure"] = {"kind": failure.kind, "text": failure.text, **failure.detail}
        finally:
            side.close()
            self.care.recover()
        found["oracle"] = self.reference.oracle_kind
        return {"examination": found}

    def fitness(self, message: dict[str, Any]) -> dict[str, Any]:
        from bottega.judge.fitness import inspect_task

        return {"fitness": inspect_task(self.reference, self.baselines["eager"], self.settings, self.facts, self.care.settle)}

    def _examine(self, side: Side, payload: dict[str, Any], settings: Settings, found: dict[str, Any]) -> None:
        budget = Budget(settings.timeout)
        clock = _Stages(found["stages"])
        source, language = payload["source"], payload["language"]
        with self._shared(budget):
            reply = self._load(side, source, "candidate", "ModelNew", budget.end)
            mismatch = str(reply.get("mismatch") or "")[:500]
            self._use_state("seeded" if mismatch else "loaded", budget.end)
            found["parameters"], found["mismatch"] = self.state, mismatch
            side.attach(*self._arenas(), budget.end)
            side.extent = self.sizes[1]
        clock.mark("build")
        with self._shared(budget, always=True):
            if self._trials(side, settings, budget, found):
                return
        clock.mark("trials")
        if not settings.timed:
            return
        waiting = time.monotonic()
        with self.lease.exclusive():
            budget.forgive(waiting)
            clock.mark("waiting")
            self.care.before_timing(self.reference.draw().tensors)
            if self._rounds(side, settings, budget, found):
                return
            clock.mark("timing")
            found["coverage"] = self._coverage(side, source, language, settings, budget).to_json()
            clock.mark("coverage")
            found["conditions"] = self.care.conditions()

    def _trials(self, side: Side, settings: Settings, budget: Budget, found: dict[str, Any]) -> bool:
        """Run the correctness trials; True when one of them settles the verdict."""
        for variant in settings.variants:
            terms = self._terms(settings, budget.deadline, self.care.quiet)
            trial = run_trial(self.reference, self.baselines["eager"], side, variant, terms)
            found["trials"].append(trial.to_json())
            found["violations"].extend(v for v in map(list, trial.violations) if v not in found["violations"])
            if trial.problem or trial.violations:
                found["problem"] = f"on {variant} inputs: {trial.problem}" if trial.problem else ""
                found["precision_suspect"] = trial.precision_suspect
                return True
        return False

    def _rounds(self, side: Side, settings: Settings, budget: Budget, found: dict[str, Any]) -> bool:
        errors = [error.get("reference_relative") or 0.0 for trial in found["trials"] for error in trial["errors"]]
        terms = self._terms(settings, budget.deadline, self.care.settle, max(errors, default=0.0))
        for _ in range(2):  # warm-up, on contents of its own
            drawn = self.reference.draw()
            for each in (*self.baselines.values(), side):
                each.play(drawn, terms)
        chosen = {name: self.baselines[name] for name in settings.baselines}
        rounds = run_rounds(self.reference, chosen, side, settings=settings, terms=terms)
        found["violations"].extend(list(violation) for violation in rounds.violations)
        if rounds.problem:
            found["problem"] = rounds.problem
            found["violations"].append(["inconsistent_output", "outputs were right in the test calls and wrong in a timed one"])
            return True
        found["timing"] = {}
        for name, pairs in rounds.pairs.items():
            timing = combine(pairs, settings.floor)
            found["timing"][name] = {
                "speedup": [timing.speedup.point, timing.speedup.low, timing.speedup.high],
                "baseline_ms": timing.baseline_ms,
                "candidate_ms": timing.candidate_ms,
                "clock": timing.clock,
                "rounds": len(pairs),
                "pairs": [[p.baseline_outer, p.baseline_inner, p.candidate_outer, p.candidate_inner] for p in pairs],
            }
            if timing.forged:
                found["violations"].append(["clock_forged", timing.forged])
        if self.device != "cpu":
            busy = left_behind(rounds)
            if busy:
                found["violations"].append(["work_after_return", busy])
            eager_ms = found["timing"].get("eager", {}).get("baseline_ms", 0.0)
            if self.solo_ms and eager_ms > 1.5 * self.solo_ms + 0.05:
                text = f"the baseline takes {eager_ms:.4g} ms beside the candidate and {self.solo_ms:.4g} ms alone"
                found["violations"].append(["baseline_disturbed", text])
        return False

    def _coverage(self, side: Side, source: str, language: str, settings: Settings, budget: Budget) -> Any:
        claimed = claimed_kernels(source, language)
        terms = self._terms(settings, budget.deadline, self.care.settle)
        if self.device != "cpu":
            side.play(self.reference.draw(), terms)
            reply = side.ask({"do": "profile", "calls": PROFILED_CALLS}, budget.end)
            rows = [row for row in reply.get("kernels", []) if isinstance(row, list) and len(row) == 3]
            return gpu_coverage(rows, source, claimed)
        samples: dict[str, Any] = {"by_file": {}}
        for _ in range(SAMPLING_WINDOWS):
            merge_samples(samples, self._sample(side, terms))
            coverage = cpu_coverage(samples, claimed)
            if coverage.share is not None or "unavailable" in samples:
                break
        return coverage

    def _sample(self, side: Side, terms: Terms) -> dict[str, Any]:
        """Have the operating system sample the candidate's processes over some calls."""
        side.reins.sample_start()
        begun = time.monotonic()
        for played in range(400):
            if played >= 3 and time.monotonic() - begun > SAMPLING_SECONDS:
                break
            side.play(self.reference.draw(), terms)
        return side.reins.sample_stop()

    def _terms(
        self, settings: Settings, deadline: Callable[[], float], settle: Callable[[], None], reference_error: float = 0.0
    ) -> Terms:
        return Terms(
            precision=settings.precision,
            state=self.state,
            mutates=self.mutates,
            reference_aliases=self.reference_aliases,
            deadline=deadline,
            settle=settle,
            typical=self.typical,
            reference_error=reference_error,
        )

    def _side(self, name: str, end: int, reins: int) -> Side:
        spins = 0 if self.device == "cpu" else SPINS
        return Side(name, Channel.from_descriptor(end, spins), Keeper(reins), self.device)

    def _load(
        self,
        side: Side,
        source: str,
        name: str,
        class_name: str,
        deadline: float,
        *,
        compile_it: bool = False,
        autocast: bool = False,
    ) -> dict[str, Any]:
        payload = {
            "source": source,
            "name": name,
            "class_name": class_name,
            "initial": self.reference.initial,
            "seed": self.reference.seed,
            "state": self.reference.state_bytes("loaded"),
            "precision": self.settings.precision,
            "autocast": autocast,
            "training": self.settings.training,
            "compile": compile_it,
        }
        descriptor = payload_descriptor(pickle.dumps(payload))
        try:
            return side.ask({"do": "load"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def _use_state(self, state: str, deadline: float) -> None:
        """Give the baselines the parameters that the candidate has: loaded ones, or those of the common seed."""
        if state == self.state:
            return
        for side in self.baselines.values():
            descriptor = payload_descriptor(self.reference.state_bytes(state))
            try:
                side.ask({"do": "state"}, deadline, (descriptor,))
            finally:
                os.close(descriptor)
        self.state = state

    def _learn(self, deadline: float) -> None:
        """The first calls of the reference tell what it returns, whether it repeats itself, and what it does to its inputs."""
        drawn = self.reference.draw()
        input_bytes = lay_out(drawn.tensors, ALIGNMENT * SHIFTS)[1]
        eager = self.baselines["eager"]
        eager.attach(Arena.create(self.device, input_bytes), Arena.create(self.device, ALIGNMENT), deadline)
        survey = self._of_reference("eager", lambda: eager.survey(drawn, deadline))
        if not survey["tensors"]:
            raise InvalidTask("the model returns no tensor: there is nothing to compare")
        self.sizes = (input_bytes, int(survey["bytes"]))
        eager.extent = self.sizes[1]
        eager.attach(*self._arena_pair(), deadline)
        first = self._reference_turn(eager, drawn, deadline)
        output_bytes = sum(spec.extent for spec in first.specs)
        self.mutates = frozenset(eager.mutated(first, drawn))
        self.reference_aliases = first.aliases
        outputs = [view.clone() for view in eager.output_views(first.specs)]
        for side in self.baselines.values():
            side.extent = self.sizes[1]
            if side is not eager:
                side.attach(*self._arena_pair(), deadline)
                self._reference_turn(side, drawn, deadline)
        second = self._reference_turn(eager, drawn, deadline)
        for before, after in zip(outputs, eager.output_views(second.specs)):
            if before.shape != after.shape or _differs(before, after):
                raise InvalidTask(
                    "the reference answers differently to the same inputs: it draws random numbers or keeps state; "
                    "put it in evaluation mode (--mode eval) or take the randomness out"
                )
        times, sizes = [], []
        for _ in range(4):
            turn = self._reference_turn(eager, self.reference.draw(), deadline)
            times.append(turn.inner_ns)
            views = eager.output_views(turn.specs)
            sizes.append([root_mean_square(v) if v.is_floating_point() and v.numel() <= SMALL_OUTPUT else 0.0 for v in views])
        self.solo_ms = median(times) / 1e6
        self.typical = tuple(max(column) for column in zip(*sizes))
        parameters = sum(value.nbytes for value in self.reference.seeded_state.values())
        self.facts = {
            "input_bytes": sum(tensor.nbytes for tensor in drawn.tensors),
            "output_bytes": output_bytes,
            "parameter_bytes": parameters,
            "reference_ms": self.solo_ms,
            "outputs": [[spec.dtype, list(spec.shape)] for spec in first.specs],
            "mutates_inputs": sorted(self.mutates),
            **self.care.rates(),
        }

    def _reference_turn(self, side: Side, drawn: Drawn, deadline: float) -> Turn:
        terms = self._terms(self.settings, lambda: deadline, self.care.quiet)
        return self._of_reference(side.name, lambda: side.play(drawn, terms))

    def _of_reference(self, name: str, call: Callable[[], T]) -> T:
        """Whatever goes wrong in a call of the reference is the task's fault: say so in its words."""
        try:
            return call()
        except SideFailed as failure:
            text = failure.detail.get("text") or failure.text
            if failure.kind == "failure" and "out of memory" in text.lower():
                raise InvalidTask(
                    f"the reference needs more memory than the {self.device} device has left; use smaller shapes"
                ) from None
            reasons = {"timeout": "takes longer than the task timeout", "died": "kills its process (out of memory, or a crash)"}
            told = reasons.get(failure.kind) or f"raises {failure.detail.get('type', '')}: {text}"
            raise InvalidTask(f"{name} baseline: the reference {' '.join(told.split())[:400]}") from None

    def _arena_pair(self) -> tuple[Arena, Arena]:
        inputs, outputs = self.sizes
        return Arena.create(self.device, inputs), Arena.create(self.device, outputs * 2 + ALIGNMENT * 64)

    def _arenas(self) -> tuple[Arena, Arena]:
        """Buffers for a candidate: made once, reused by the next, since every call overwrites them."""
        if self.spare is None:
            self.spare = self._arena_pair()
        return self.spare

    def _shared(self, budget: Budget | None = None, always: bool = False) -> Any:
        """Share the device while something runs on it untimed. On a GPU, building does not touch it."""
        return _Shared(self.lease, budget) if always or self.device == "cpu" or budget is None else _Nothing()


class _Shared:
    def __init__(self, lease: Lease, budget: Budget | None):
        self.context = lease.shared()
        self.budget = budget

    def __enter__(self) -> None:
        waiting = time.monotonic()
        self.context.__enter__()
        if self.budget is not None:
            self.budget.forgive(waiting)

    def __exit__(self, *details: Any) -> None:
        self.context.__exit__(*details)


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *details: Any) -> None: ...


class _Stages:
    """Seconds by stage, written where the verdict will carry them."""

    def __init__(self, stages: dict[str, float]):
        self.stages = stages
        self.last = time.monotonic()

    def mark(self, name: str) -> None:
        now = time.monotonic()
        self.stages[name] = round(now - self.last, 4)
        self.last = now


def _differs(before: torch.Tensor, after: torch.Tensor) -> bool:
    floating = before.is_floating_point() or before.is_complex()
    comparison = Comparison(dtype_name(before.dtype), "fp32", root_mean_square(before) if floating else 0.0, coarse=1e-4)
    comparison.feed(after.reshape(-1), before.reshape(-1), before.reshape(-1))
    return bool(comparison.problem)


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))[-3000:]
