"""Verifies a record: compares its hashes and judges a random sample of its kernels again, on this device, with the same settings.

A kernel holds when its outcome is of the same class (accepted or refused) and, on a device of the same make, its new interval overlaps the
old one against each baseline. Both ways: a record that makes a kernel slower than it is does not hold either. What seems not to hold is
judged once more, and the second verdict counts, because a busy moment of the machine is no forgery.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bottega.bench.attempt import BenchAttempt, BenchRun
from bottega.bench.leaderboard import disagreements, read_record
from bottega.bench.run_directory import read_kernel, read_run
from bottega.bench.settings import BenchJudgeSettings
from bottega.bench.shard import Shard, fingerprint_of
from bottega.core.errors import BottegaError, UsageError
from bottega.core.foreign_text import one_line
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict, interval_text
from bottega.judge.device_host import LOCAL, DeviceHost, kind_of, maker_of
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.judge.machine import Workers
from bottega.languages import candidate_from

Conclusion = Literal["holds", "does not hold", "another device: only correctness compared", "nothing could be compared"]
UNCLEAR = (Outcome.INVALID_TASK,)
ELSEWHERE_UNCLEAR = (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR, Outcome.TIMEOUT, Outcome.INVALID_TASK)
"""On a device of another make, a kernel that does not build or does not run says nothing of whether its record was right."""


@dataclass(frozen=True)
class Checked:
    """One kernel, judged again."""

    task: str
    """By name."""
    candidate: str
    then: str
    now: str
    holds: bool | None
    """None where the two could not be compared."""
    why: str = ""
    intervals: tuple[tuple[str, Speedup, Speedup], ...] = ()
    """By baseline, then and now."""

    def to_json(self) -> dict[str, Any]:
        found = {name: {"then": asdict(then), "now": asdict(now)} for name, then, now in self.intervals}
        return {**self.__dict__, "intervals": found}


@dataclass(frozen=True)
class Verification:
    conclusion: Conclusion
    reasons: tuple[str, ...]
    checked: tuple[Checked, ...]
    kernels: int
    """That the record rests on; `checked` is a part of them."""
    seed: int
    """Draws the same part once more."""

    @property
    def refuted(self) -> bool:
        return self.conclusion == "does not hold"

    def to_json(self) -> dict[str, Any]:
        return {
            "conclusion": self.conclusion,
            "reasons": list(self.reasons),
            "kernels": self.kernels,
            "seed": self.seed,
            "checked": [one.to_json() for one in self.checked],
        }


async def verify(
    record: Path,
    devices: Sequence[str],
    *,
    share: float = 0.1,
    count: int | None = None,
    seed: int | None = None,
    workers: Workers = "auto",
    on_event: Callable[[Checked], None] = lambda one: None,
    host: DeviceHost = LOCAL,
) -> Verification:
    """Without a seed, chance decides what is judged again: whoever wrote the record must not know which of its kernels will be looked at."""
    seed = secrets.randbits(48) if seed is None else seed
    folder, told = read_record(record)
    run = read_run(folder)
    reasons = disagreements(run, told)
    try:
        judging = BenchJudgeSettings.of(run.settings)
    except (KeyError, TypeError, UsageError) as error:
        raise UsageError(f"{folder}: its settings do not say how it was judged ({error})") from None
    if kind_of(devices[0]) != judging.kind:
        raise UsageError(f"{folder}: was judged on {judging.kind}; give --device {judging.kind}")
    same = maker_of(fingerprint_of(devices, host)) == maker_of(run.fingerprint)
    every = kernels_of(run)
    drawn = sampled_from(every, share, count, seed)
    checked = await _checked(run, drawn, devices, judging, workers, same, on_event, host)
    failed = [one for one in checked if one.holds is False]
    reasons += [f"{one.task}, kernel {one.candidate}: {one.why}" for one in failed]
    if told.get("judge") != JUDGE_VERSION and failed:
        reasons.append(
            f"the record is by judge {told.get('judge')}, this is judge {JUDGE_VERSION}: the rules have changed between"
        )
    conclusion: Conclusion
    if reasons:
        conclusion = "does not hold"
    elif all(one.holds is None for one in checked):  # also where there was no kernel at all
        conclusion = "nothing could be compared"
    else:
        conclusion = "holds" if same else "another device: only correctness compared"
    return Verification(conclusion, tuple(reasons), tuple(checked), len(every), seed)


def kernels_of(run: BenchRun) -> list[BenchAttempt]:
    """Every kernel with a verdict of its own, once for each task."""
    found: dict[tuple[str, str], BenchAttempt] = {}
    for attempt in run.attempts:
        judged = attempt.verdict is not None and attempt.verdict.outcome is not Outcome.INVALID_TASK
        if judged and attempt.candidate:
            found.setdefault((attempt.task, attempt.candidate), attempt)
    return [found[key] for key in sorted(found)]


def sampled_from(every: Sequence[BenchAttempt], share: float, count: int | None, seed: int) -> list[BenchAttempt]:
    """At least one where there is one, at random; the same seed draws the same. Those of a task stand together."""
    if not 0 < share <= 1:
        raise UsageError(f"a share lies above 0 and is at most 1, not {share:g}")
    if count is not None and count < 1:
        raise UsageError(f"a count of {count} judges nothing again; give at least 1")
    wanted = min(len(every), count if count is not None else math.ceil(share * len(every)))
    places = sorted(random.Random(seed).sample(range(len(every)), wanted))
    return [every[place] for place in places]


async def _checked(
    run: BenchRun,
    drawn: Sequence[BenchAttempt],
    devices: Sequence[str],
    judging: BenchJudgeSettings,
    workers: Workers,
    same: bool,
    on_event: Callable[[Checked], None],
    host: DeviceHost,
) -> list[Checked]:
    rows = {row.id: row for row in run.tasks}
    found: dict[tuple[str, str], Checked] = {}
    waiting = iter(drawn)

    async def one(shard: Shard, attempt: BenchAttempt) -> Checked:
        row, then = rows[attempt.task], attempt.verdict
        assert then is not None
        blank = Checked(row.name, attempt.candidate, then.outcome.value, "not judged", None)
        try:
            candidate = candidate_from(read_kernel(run.folder, attempt.candidate))
        except UsageError as error:
            return replace(blank, holds=False, why=str(error))
        task = Task(row.source, row.name, row.name, row.level)
        try:
            for _ in range(2):
                checked = compared(blank, then, await shard.judge_async(task, candidate), same)
                if checked.holds is not False:
                    break
        except BottegaError as error:
            return replace(blank, why=one_line(str(error), 300))
        return checked

    async def lane(shard: Shard) -> None:
        for attempt in waiting:
            found[(attempt.task, attempt.candidate)] = checked = await one(shard, attempt)
            on_event(checked)

    each = host.workers_of_each(workers, devices)
    shards = [Shard(device, judging, each, host=host) for device in devices]
    try:
        await asyncio.gather(*(lane(shard) for shard in shards for _ in range(shard.judge.workers)))
    finally:
        for shard in shards:
            shard.close()
    return [found[(attempt.task, attempt.candidate)] for attempt in drawn]


def compared(blank: Checked, then: Verdict, now: Verdict, same: bool) -> Checked:
    """What a second verdict says of the first. `same`: the device is of the same make, so that speeds compare."""
    checked = replace(blank, now=now.outcome.value)
    if now.outcome in (UNCLEAR if same else ELSEWHERE_UNCLEAR):
        return replace(checked, why=f"cannot be compared: {' '.join(now.diagnosis.split())[:200]}")
    if then.outcome.accepted is not now.outcome.accepted:
        if not same and then.outcome in ELSEWHERE_UNCLEAR:
            return replace(
                checked, why=f"it was {then.outcome} there and is {now.outcome} here, which another device may explain"
            )
        return replace(checked, holds=False, why=f"it was {then.outcome} and is now {now.outcome}: {_first(now.diagnosis)}")
    if not same or not then.outcome.accepted:
        return replace(checked, holds=True)
    both = tuple((name, _ends(then.speedup[name]), _ends(now.speedup[name])) for name in then.speedup if name in now.speedup)
    apart = [
        f"against {name} it was {interval_text(old.low, old.high, 3)} and is now {interval_text(new.low, new.high, 3)}"
        for name, old, new in both
        if old.low > new.high or new.low > old.high
    ]
    untimed = [f"against {name} it was timed and is not now" for name in then.speedup if name not in now.speedup]
    return replace(checked, intervals=both, holds=not apart and not untimed, why="; ".join([*apart, *untimed]))


def _ends(found: Speedup) -> Speedup:
    """An end that is no number leaves the interval open: JSON has no infinities, so a file may hold null there."""
    point, low, high = (value if value is not None and math.isfinite(value) else None for value in asdict(found).values())
    return Speedup(math.nan if point is None else point, 0.0 if low is None else low, math.inf if high is None else high)


def _first(text: str) -> str:
    return " ".join(text.split())[:160]
