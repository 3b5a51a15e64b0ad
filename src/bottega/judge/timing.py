"""The timing stage of an evaluation: warm-up, paired rounds, and the checks that the candidate disturbed nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from statistics import median
from typing import Any

import torch

from bottega.judge.call_options import CallOptions
from bottega.judge.clocks import TimedPair, combine, is_shared
from bottega.judge.coverage import merge_samples
from bottega.judge.evaluation_run import EvaluationRun
from bottega.judge.heap import reserve_for
from bottega.judge.inputs import InputSet
from bottega.judge.many_calls import call_often
from bottega.judge.prepared_work import PreparedWork, amortised_ns, charge
from bottega.judge.rounds import Rounds, answer_of, left_behind, run_rounds, timed_call
from bottega.judge.runner import Runner
from bottega.judge.trials import roundings
from bottega.judge.variants import chosen, planned
from bottega.judge.worker_link import RunnerFailed

WARM_UP_ROUNDS = 2
QUICK_WARM_UP_ROUNDS = 1
DRAWN_AHEAD_BYTES = 256 << 20
DISTURBED, DISTURBED_MS = 1.5, 0.05
"""A baseline that takes longer than so many times its time without the candidate was disturbed."""
DISTURBED_BY_OTHERS, OTHERS_NS = 1.05, 100_000
"""The same where others were seen on the GPU: for so many nanoseconds while the baseline, which leaves nothing behind, was being stopped."""
WOKEN = 0.8
"""Of a hold, what is left for launches when the worker has woken up."""
MOST_TIMINGS = 3
"""As long as others are seen on the device, whose task is being opened or whose candidate is built: such rounds tell little."""
CALLS_WITHOUT_CANDIDATE = 7
ENDING_SECONDS = 2.0


class TimingStage:
    def __init__(self, run: EvaluationRun):
        self.run = run

    def draw_ahead(self) -> list[InputSet]:
        """Inputs for the warm-up and the fewest rounds, drawn while others may use the GPU, as far as there is memory. They are secret
        like all others, and each is used for one round."""
        drawn: list[InputSet] = []
        if self.run.context.device == "cpu":
            return drawn
        room = min(DRAWN_AHEAD_BYTES, torch.cuda.mem_get_info()[0] // 8)
        first = planned(self.run.accepted_variants(), self.run.settings.rounds[0])
        for variant in ["plain"] * self._warm_up_rounds + first:
            room -= self.run.context.profile.input_room
            if room < 0:
                break
            self.run.yield_to_timer()
            # The last are used first: warm-up rounds, on plain inputs.
            drawn.append(self.run.context.reference.draw(variant))
        return drawn[::-1]

    @property
    def _warm_up_rounds(self) -> int:
        return QUICK_WARM_UP_ROUNDS if self.run.settings.quick and self.run.context.device != "cpu" else WARM_UP_ROUNDS

    def run_timed_rounds(self, ahead: list[InputSet]) -> bool:
        """The timed rounds; True when an output in them was wrong, or they ended before one counted."""
        context, found = self.run.context, self.run.found
        options = self.run.options()
        tried = {trial["variant"]: roundings(trial["errors"]) for trial in found["trials"]}
        accepted = {name: tried[name if name in tried else "spiked"] for name in self.run.accepted_variants()}
        for _ in range(self._warm_up_rounds):
            with options.paused():
                drawn = ahead.pop() if ahead else context.draw()
            for runner in (*context.baselines.values(), self.run.runner):
                timed_call(runner, drawn, options)
        chosen = {name: context.baselines[name] for name in self.run.settings.measured if name in context.baselines}
        chosen = chosen or dict(list(context.baselines.items())[:1])  # eager, which is always there
        doubted: dict[str, list[TimedPair]] = {}
        suspected = False
        for left in reversed(range(MOST_TIMINGS)):
            rounds = self._rounds(chosen, accepted, options, ahead)
            if self._is_decided_by(rounds):
                return True
            disturbed = self._disturbances(rounds)
            rounds.pairs = {name: doubted.get(name, []) + pairs for name, pairs in rounds.pairs.items()}
            forged = any(
                combine(pairs, self.run.settings.floor, self.run.settings.own_code).forged for pairs in rounds.pairs.values()
            )
            beside = context.device != "cpu" and any(
                is_shared(pairs) or others_worked(pairs) for pairs in rounds.pairs.values()
            )
            suspect = bool(disturbed) or forged
            if not left or (suspect and suspected) or not (suspect or beside):
                break  # seen once, it may be another process on the device; a kernel that does it does it again
            suspected |= suspect
            if forged:
                doubted = rounds.pairs  # they count: forging must not discard rounds
        self._write_timing(rounds)
        found["violations"].extend(disturbed)
        if context.device != "cpu":
            return False
        return self._charge_prepared_work(rounds, chosen, accepted, options)

    def _charge_prepared_work(
        self, rounds: Rounds, chosen: dict[str, Runner], accepted: dict[str, list[tuple[float, float]]], options: CallOptions
    ) -> bool:
        """Before a candidate is called faster. True when an output was wrong."""
        context, timing = self.run.context, self.run.found["timing"]
        again = Rounds(pairs={name: [] for name in rounds.pairs})
        if any(row["speedup"][1] > 1 and amortised_ns(rounds.pairs[name]) for name, row in timing.items()):
            again = self._rounds(chosen, accepted, options, [], exactly=2 * min(map(len, rounds.pairs.values())))
            if self._is_decided_by(again):
                return True
        for name, row in timing.items():
            charge(row, amortised_ns(rounds.pairs[name], again.pairs[name]))
        prepared = self._suspect_prepared_work()
        if prepared is None:
            return False
        many = call_often(
            context.draw,
            context.oracle,
            next(iter(chosen.values())),
            self.run.runner,
            accepted,
            settings=self.run.settings,
            options=options,
            profile=context.profile,
            prepared=prepared,
        )
        many.seen.pairs = rounds.pairs
        if self._is_decided_by(many.seen) or many.seen.violations:
            return True
        for name, row in timing.items():
            unknown = prepared.unknown_ns(len(many.core_ns), self._memory_rate)
            charge(row, prepared.hidden_ns(rounds.pairs[name] + again.pairs[name], many.core_ns), unknown)
        return False

    def _rounds(
        self,
        chosen: dict[str, Runner],
        accepted: dict[str, list[tuple[float, float]]],
        options: CallOptions,
        ahead: list[InputSet],
        exactly: int = 0,
    ) -> Rounds:
        context = self.run.context
        with self._sampling():
            return run_rounds(
                context.draw,
                context.oracle,
                chosen,
                self.run.runner,
                accepted,
                settings=self.run.settings,
                options=options,
                ahead=ahead,
                profile=context.profile,
                exactly=exactly,
            )

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """On a CPU, samples of the rounds that do not count."""
        if self.run.context.device != "cpu":
            yield
            return
        control = self.run.runner.control
        control.sample_start()
        control.sample_pause()
        yield
        merge_samples(self.run.samples, control.sample_stop())

    def _is_decided_by(self, rounds: Rounds) -> bool:
        """Whether an output was wrong in these rounds, or they ended before one counted."""
        found = self.run.found
        seen = [list(violation) for violation in rounds.violations]
        found["violations"].extend(violation for violation in seen if violation not in found["violations"])
        if rounds.problem:
            found["problem"] = rounds.problem
            found["violations"].append(["inconsistent_output", "outputs were right in the test calls and wrong in a timed one"])
            return True
        return not all(rounds.pairs.values())  # a rule was broken before anything was timed

    @property
    def _memory_rate(self) -> float:
        return float(self.run.context.device_control.rates()["bytes_per_second"])

    def _suspect_prepared_work(self) -> PreparedWork | None:
        """Before a candidate is called faster."""
        context, timing = self.run.context, self.run.found["timing"]
        if all(row["speedup"][1] <= 1 for row in timing.values()):
            return None
        candidate, eager, profile = self.run.runner, context.baselines["eager"], context.profile
        reserve = reserve_for(sum(arena.capacity for arena in candidate.arenas))
        usual = reserve - reserve_for(profile.input_room)  # a baseline's first arena has no room for outputs yet
        return PreparedWork.suspected(
            candidate.control.held_memory() - eager.control.held_memory() - usual,
            reserve,
            profile.output_room,
            min(row["candidate_ms"] for row in timing.values()) / 1e3,
            self._memory_rate,
        )

    def _write_timing(self, rounds: Rounds) -> None:
        found = self.run.found
        found["timing"] = {}
        for name, pairs in rounds.pairs.items():
            timing = combine(pairs, self.run.settings.floor, self.run.settings.own_code)
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
            self.run.timed_core_ns = median(pair.candidate_core for pair in pairs)
            if timing.forged:
                found["violations"].append(["clock_forged", timing.forged])
        alone_ms, eager = self.run.context.profile.alone_ms, found["timing"].get("eager")
        if self.run.context.device != "cpu" and alone_ms and eager:
            slowdown = eager["baseline_ms"] / alone_ms
            for name, pairs in rounds.pairs.items():
                if others_worked(pairs) or launches_show(pairs):
                    row = found["timing"][name]
                    discount_slowdown(row, row["baseline_ms"] / slowdown, DISTURBED_BY_OTHERS)

    def time_without_candidate(self) -> None:
        """Before a candidate is called faster on a CPU: time the baseline again after the candidate's processes have ended. Whatever a
        candidate makes the operating system do during the baseline's calls ends with them."""
        doubted = {name: row for name, row in self.run.found["timing"].items() if self._is_doubtful(name, row)}
        if not doubted:
            return
        self.run.runner.control.kill()
        with suppress(RunnerFailed):
            self.run.runner.listen(time.monotonic() + ENDING_SECONDS)  # until its end of the channel is closed
        options = self.run.options()
        for name, row in doubted.items():
            runner = self.run.context.baselines[name]
            drawn = (self.run.context.draw(chosen(self.run.accepted_variants())) for _ in range(CALLS_WITHOUT_CANDIDATE))
            calls = [call for inputs in drawn if (call := answer_of(runner, inputs, options)) is not None]
            calls = calls or [timed_call(runner, self.run.context.draw(), options)]
            discount_slowdown(row, median(call.inner_ns for call in calls) / 1e6)

    def _is_doubtful(self, name: str, row: dict[str, Any]) -> bool:
        alone_ms = self.run.context.profile.alone_ms if name == "eager" else 0.0
        return bool(row["speedup"][1] > 1 and row["baseline_ms"] > DISTURBED * alone_ms + DISTURBED_MS)

    def _disturbances(self, rounds: Rounds) -> list[list[str]]:
        """Signs that the candidate works on the device outside of its calls."""
        if self.run.context.device == "cpu":
            return []  # a frozen process cannot leave work behind on a CPU
        if any(map(is_shared, rounds.pairs.values())):
            return []  # others are on the device too, and the candidate gains nothing by it
        busy = left_behind(rounds)
        found = [["work_after_return", busy]] if busy else []
        pairs, alone_ms = rounds.pairs.get("eager"), self.run.context.profile.alone_ms
        if pairs and launches_show(pairs):
            return found  # its time is the host's, which a busy machine slows; the speedup is scaled down by that
        eager_ms = combine(pairs, self.run.settings.floor, self.run.settings.own_code).baseline_ms if pairs else 0.0
        if alone_ms and eager_ms > DISTURBED * alone_ms + DISTURBED_MS:
            text = f"the baseline takes {eager_ms:.4g} ms beside the candidate and {alone_ms:.4g} ms alone"
            found.append(["baseline_disturbed", text])
        return found


def others_worked(pairs: Sequence[TimedPair]) -> bool:
    """Whether somebody else used the GPU right after the trusted baseline's calls, in most rounds, and so perhaps in them: a candidate that is being
    built has the device too, and may be of one mind with the one that is timed."""
    return median(pair.baseline_late for pair in pairs) > OTHERS_NS


def launches_show(pairs: Sequence[TimedPair]) -> bool:
    """Whether the host took longer to launch the trusted baseline's work than the device was held for it, in most rounds."""
    return median(pair.baseline_enqueued - WOKEN * pair.held for pair in pairs) > 0


def discount_slowdown(row: dict[str, Any], alone_ms: float, most: float = DISTURBED) -> None:
    """Where a baseline was much slower beside the candidate than without it, scale the speedup down by that factor."""
    beside_ms = row["baseline_ms"]
    if beside_ms <= most * alone_ms + DISTURBED_MS:
        return
    point, low, high = row["speedup"]
    low *= alone_ms / beside_ms
    row["speedup"] = [max(low, min(point, 1.0)), low, high]
    row["beside"] = f"{beside_ms:.4g} ms beside the candidate and {alone_ms:.4g} ms without it"
