"""One candidate, from its build to its coverage: the stages in order, each of which may settle the matter.

What is found goes into one plain dictionary that the judge turns into a verdict.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import nullcontext, suppress
from dataclasses import astuple
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch

from bottega.core.errors import JudgeError
from bottega.core.foreign_text import printable, words_of
from bottega.judge.arena import Arena
from bottega.judge.budget import Budget, Stages
from bottega.judge.build_cache import LARGEST_ARCHIVE, archive_path, keep, wants_cache
from bottega.judge.clocks import Pair, combine, is_shared
from bottega.judge.coverage import Coverage, claimed_kernels, cpu_coverage, gpu_coverage, merge_samples
from bottega.judge.device import DeviceCare
from bottega.judge.inputs import Drawn
from bottega.judge.lease import Lease
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference
from bottega.judge.rounds import Rounds, left_behind, run_rounds, take_turn
from bottega.judge.runner import Side, SideFailed, on_all_cores
from bottega.judge.settings import Settings
from bottega.judge.task_profile import Acquaintance
from bottega.judge.terms import Terms, nothing
from bottega.judge.trials import CROWDED, roundings, run_trial

WARM_UP_ROUNDS = 2
QUICK_WARM_UP_ROUNDS = 1
PROFILED_CALLS = 5
DRAWN_AHEAD_BYTES = 256 << 20
SAMPLING_SECONDS = 0.2
SAMPLING_WINDOWS = 15
WINDOWS_WITHOUT_CLAIM = 3
DISTURBED, DISTURBED_MS = 1.5, 0.05
"""A baseline that takes longer than so many times its time without the candidate was disturbed by somebody."""
CALLS_WITHOUT_IT = 7
ENDING_SECONDS = 2.0


class Bench(Protocol):
    """What an examination takes from the referee."""

    device: str
    cache: str
    lease: Lease
    care: DeviceCare
    reference: Reference
    oracle: Oracle
    known: Acquaintance
    baselines: dict[str, Side]
    state: str

    def load(self, side: Side, source: str, name: str, class_name: str, deadline: float) -> dict[str, Any]: ...

    def use_state(self, state: str, deadline: float) -> None: ...

    def await_baselines(self) -> dict[str, str]: ...

    def buffers(self) -> tuple[Arena, Arena]: ...

    def draw(self, variant: str = "plain") -> Drawn: ...


class Examination:
    def __init__(self, bench: Bench, side: Side, source: str, language: str, settings: Settings):
        self.bench = bench
        self.side = side
        self.source = source
        self.language = language
        self.settings = settings
        self.budget = Budget(settings.timeout)
        self.found: dict[str, Any] = {
            "trials": [],
            "violations": [],
            "stages": {},
            "notes": list(bench.known.notes),
            "facts": bench.known.facts,
        }

    def run(self) -> dict[str, Any]:
        try:
            self._stages()
        except SideFailed as failure:
            self.found["failure"] = {"kind": failure.kind, "text": failure.text, **failure.detail}
        except JudgeError:  # its supervisor does not answer, as `Side` has it in a turn
            self.found["failure"] = {"kind": "died", "text": ""}
        except torch.OutOfMemoryError:
            self.found["failure"] = {"kind": "failure", **CROWDED}
        self.found["oracle"] = self.bench.oracle.kind
        return self.found

    def _stages(self) -> None:
        stages = Stages(self.found["stages"])
        if self.bench.device == "cpu":
            with self.budget.sharing(self.bench.lease):
                settled = self._build()
        else:
            settled = self._build()  # compiling does not touch the device
        stages.mark("build")
        if settled:
            return
        with self.budget.sharing(self.bench.lease):
            settled = self._trials()
            ahead = [] if settled or not self.settings.timed else self._draw_ahead()
        stages.mark("trials")
        if settled or not self.settings.timed:
            return
        with self.budget.waiting():
            self.found["unavailable"] = dict(self.bench.await_baselines())
        with self.budget.alone(self.bench.lease), on_all_cores((*self.bench.baselines.values(), self.side)):
            stages.mark("waiting")
            settled = self._rounds(ahead)
            stages.mark("timing")
            if settled:
                return
            if self.bench.device == "cpu":
                self._cover(stages)
                self._time_without_it()
        self.found["conditions"] = self.bench.care.conditions()
        if self.bench.device != "cpu":
            with self.budget.sharing(self.bench.lease):
                self._cover(stages)

    def _cover(self, stages: Stages) -> None:
        self.found["coverage"] = self._coverage().to_json()
        if self.bench.device != "cpu" and self.bench.known.large:
            self._write_memory()
        stages.mark("coverage")

    def _write_memory(self) -> None:
        """Who took how much of the device; of the two sides by their own word."""
        bench, end = self.bench, self.budget.end
        arenas = {id(arena): arena.capacity for side in (*bench.baselines.values(), self.side) for arena in side.arenas}
        self.found["memory"] = {
            "arenas": sum(arenas.values()),
            "referee": torch.cuda.max_memory_reserved(),
            **{name: side.trim(end) for name, side in (*bench.baselines.items(), ("candidate", self.side))},
        }

    def _build(self) -> bool:
        """Import and build the candidate and give it the reference's parameters; True when that settles the verdict."""
        bench, end = self.bench, self.budget.end
        archive = archive_path(bench.cache, self.source) if bench.cache and wants_cache(self.source) else None
        if archive is not None and archive.exists():
            self._restore(archive, end)
        reply = bench.load(self.side, self.source, "candidate", "ModelNew", end)
        if archive is not None and not archive.exists():
            self._harvest(archive, end)
        mismatch = printable(words_of(reply.get("mismatch") or "", 500))
        if mismatch and bench.reference.guessable:
            names = ", ".join(sorted(bench.reference.guessable)[:4])
            told = f"{mismatch}; {names} begin with values that anybody knows, so the reference's must be taken"
            self.found["violations"].append(["parameters_not_taken", told])
            return True
        bench.use_state("seeded" if mismatch else "loaded", end)
        self.found["parameters"], self.found["mismatch"] = bench.state, mismatch
        self.side.attach(*bench.buffers(), end)
        self.side.extent = bench.known.watched_room
        self.side.reads_memory = bench.known.reads_memory and bench.device == "cpu"
        return False

    def _trials(self) -> bool:
        """The correctness trials; True when one of them settles the verdict."""
        bench, found = self.bench, self.found
        terms = self._terms(timed=False)
        for variant in self.settings.variants:
            trial = run_trial(bench.draw, bench.oracle, bench.baselines["eager"], self.side, variant, terms, known=bench.known)
            found["trials"].append(trial.to_json())
            found["violations"].extend(v for v in map(list, trial.violations) if v not in found["violations"])
            if trial.problem or trial.violations:
                found["problem"] = f"on {variant} inputs: {trial.problem}" if trial.problem else ""
                found["precision_suspect"] = trial.precision_suspect
                return True
        return False

    def _draw_ahead(self) -> list[Drawn]:
        """Contents for the warm-up and the fewest rounds there will be, while others may have the GPU: as far as there is room.
        They are the referee's secret like all others, and each is used for one round."""
        drawn: list[Drawn] = []
        if self.bench.device == "cpu":
            return drawn
        room = min(DRAWN_AHEAD_BYTES, torch.cuda.mem_get_info()[0] // 8)
        for number in range(self._warm_up + self.settings.rounds[0]):
            room -= self.bench.known.input_room
            if room < 0:
                break
            self._breathe()
            # The last are used first: warm-up rounds, on plain inputs.
            drawn.append(self.bench.reference.draw("plain" if number < self._warm_up else secrets.choice(self._accepted())))
        return drawn[::-1]

    @property
    def _warm_up(self) -> int:
        return QUICK_WARM_UP_ROUNDS if self.settings.quick and self.bench.device != "cpu" else WARM_UP_ROUNDS

    def _accepted(self) -> list[str]:
        return [trial["variant"] for trial in self.found["trials"] if not trial["skipped"]]

    def _rounds(self, ahead: list[Drawn]) -> bool:
        """The timed rounds; True when an output in them was wrong, or they ended before one counted."""
        bench, found = self.bench, self.found
        terms = self._terms()
        accepted = {trial["variant"]: roundings(trial["errors"]) for trial in found["trials"] if not trial["skipped"]}
        for _ in range(self._warm_up):
            drawn = ahead.pop() if ahead else bench.draw()
            for side in (*bench.baselines.values(), self.side):
                take_turn(side, drawn, terms)
        chosen = {name: bench.baselines[name] for name in self.settings.measured if name in bench.baselines}
        chosen = chosen or dict(list(bench.baselines.items())[:1])  # eager, which always plays
        doubted: dict[str, list[Pair]] = {}
        for last in (False, True):
            rounds = run_rounds(
                bench.draw,
                bench.oracle,
                chosen,
                self.side,
                accepted,
                settings=self.settings,
                terms=terms,
                ahead=ahead,
                known=bench.known,
            )
            seen = [list(violation) for violation in rounds.violations]
            found["violations"].extend(violation for violation in seen if violation not in found["violations"])
            if rounds.problem:
                found["problem"] = rounds.problem
                found["violations"].append(
                    ["inconsistent_output", "outputs were right in the test calls and wrong in a timed one"]
                )
                return True
            if not all(rounds.pairs.values()):
                return True  # a rule was broken before anything was timed
            disturbed = self._disturbances(rounds)
            rounds.pairs = {name: doubted.get(name, []) + pairs for name, pairs in rounds.pairs.items()}
            forged = any(combine(pairs, self.settings.floor).forged for pairs in rounds.pairs.values())
            if last or not (disturbed or forged):
                break  # what is seen once may be a neighbour's on the device; a kernel that does it does it again
            if forged:
                doubted = rounds.pairs  # they count: nobody shall get rid of rounds by lying in them
        self._write_timing(rounds)
        found["violations"].extend(disturbed)
        return False

    def _write_timing(self, rounds: Rounds) -> None:
        found = self.found
        found["timing"] = {}
        for name, pairs in rounds.pairs.items():
            timing = combine(pairs, self.settings.floor)
            found["timing"][name] = {
                "speedup": [timing.speedup.point, timing.speedup.low, timing.speedup.high],
                "baseline_ms": timing.baseline_ms,
                "candidate_ms": timing.candidate_ms,
                "clock": timing.clock,
                "waited": timing.waited,
                "shared": timing.shared,
                "stolen": timing.stolen,
                "pairs": [list(astuple(pair)) for pair in pairs],
            }
            if timing.forged:
                found["violations"].append(["clock_forged", timing.forged])

    def _time_without_it(self) -> None:
        """Before a candidate is called faster on a CPU: does the baseline take as long when the candidate is gone? Nobody knows every way
        to have the kernel work in others' turns, and whatever it is ends with the processes."""
        doubted = {name: row for name, row in self.found["timing"].items() if self._is_doubtful(name, row)}
        if not doubted:
            return
        self.side.reins.kill()
        with suppress(SideFailed):
            self.side.listen(time.monotonic() + ENDING_SECONDS)  # until its end of the channel is closed
        terms = self._terms()
        for name, row in doubted.items():
            side = self.bench.baselines[name]
            calls = [take_turn(side, self.bench.draw(secrets.choice(self._accepted())), terms) for _ in range(CALLS_WITHOUT_IT)]
            slowed(row, median(call.inner_ns for call in calls) / 1e6)

    def _is_doubtful(self, name: str, row: dict[str, Any]) -> bool:
        alone_ms = self.bench.known.alone_ms if name == "eager" else 0.0
        return bool(row["speedup"][1] > 1 and row["baseline_ms"] > DISTURBED * alone_ms + DISTURBED_MS)

    def _disturbances(self, rounds: Rounds) -> list[list[str]]:
        """Signs that the candidate works on the device outside of its turns."""
        if self.bench.device == "cpu":
            return []  # a side that is frozen cannot leave work behind on a CPU
        if any(map(is_shared, rounds.pairs.values())):
            return []  # others are on the device too, and nobody gains by it
        busy = left_behind(rounds)
        found = [["work_after_return", busy]] if busy else []
        pairs, alone_ms = rounds.pairs.get("eager"), self.bench.known.alone_ms
        eager_ms = combine(pairs, self.settings.floor).baseline_ms if pairs else 0.0
        if alone_ms and eager_ms > DISTURBED * alone_ms + DISTURBED_MS:
            text = f"the baseline takes {eager_ms:.4g} ms beside the candidate and {alone_ms:.4g} ms alone"
            found.append(["baseline_disturbed", text])
        return found

    def _coverage(self) -> Coverage:
        claimed = claimed_kernels(self.source, self.language)
        terms = self._terms(timed=self.bench.device == "cpu")
        if self.bench.device != "cpu":
            self.side.play(self.bench.draw(), terms)
            reply = self.side.ask({"do": "profile", "calls": PROFILED_CALLS}, self.budget.end)
            return gpu_coverage(reply.get("kernels"), self.source, claimed)
        samples: dict[str, Any] = {"by_file": {}}
        coverage = cpu_coverage(samples, claimed)
        for _ in range(SAMPLING_WINDOWS if claimed else WINDOWS_WITHOUT_CLAIM):
            merge_samples(samples, self._sample(terms))
            coverage = cpu_coverage(samples, claimed)
            if (coverage.sure if claimed else coverage.share is not None) or "unavailable" in samples:
                break
        return coverage

    def _sample(self, terms: Terms) -> dict[str, Any]:
        """Have the operating system sample the candidate's processes over some calls."""
        self.side.reins.sample_start()
        self.side.reins.sample_pause()  # only what happens inside a call counts
        begun = time.monotonic()
        for played in range(400):
            if played >= 3 and time.monotonic() - begun > SAMPLING_SECONDS:
                break
            self.side.play(self.bench.draw(), terms, sampled=True)
        return self.side.reins.sample_stop()

    def _terms(self, *, timed: bool = True) -> Terms:
        return self.bench.known.terms(
            precision=self.settings.precision,
            state=self.bench.state,
            deadline=self.budget.deadline,
            care=self.bench.care,
            timed=timed,
            breathe=nothing if timed or self.bench.device == "cpu" else self._breathe,
            apart=nullcontext if timed else lambda: self.budget.apart(self.bench.lease),
        )

    def _breathe(self) -> None:
        self.budget.breathe(self.bench.lease)

    def _restore(self, archive: Path, deadline: float) -> None:
        descriptor = os.open(archive, os.O_RDONLY)
        try:
            self.side.ask({"do": "restore"}, deadline, (descriptor,))
        except SideFailed as failure:
            if failure.kind != "failure":
                raise
            archive.unlink(missing_ok=True)  # damaged: it will be built anew
        finally:
            os.close(descriptor)

    def _harvest(self, archive: Path, deadline: float) -> None:
        room = Arena.create("cpu", LARGEST_ARCHIVE)
        try:
            reply = self.side.ask({"do": "harvest", "room": room.capacity}, deadline, (room.descriptor,))
            count = reply.get("bytes")
            data = room.read(count) if isinstance(count, int) else b""
        finally:
            room.close()
        if data:
            keep(archive, data)


def slowed(row: dict[str, Any], alone_ms: float) -> None:
    """Take off what a baseline's time was longer by beside the candidate than without it, where that is much."""
    beside_ms = row["baseline_ms"]
    if beside_ms <= DISTURBED * alone_ms + DISTURBED_MS:
        return
    point, low, high = row["speedup"]
    low *= alone_ms / beside_ms
    row["speedup"] = [max(low, min(point, 1.0)), low, high]
    row["beside"] = f"{beside_ms:.4g} ms beside the candidate and {alone_ms:.4g} ms without it"
