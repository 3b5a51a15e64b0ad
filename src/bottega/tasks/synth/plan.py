"""What was asked for: enough to know every sample in advance, and to know whether an interrupted run may be taken up again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.synth.costs import target_of
from bottega.tasks.synth.keys import tree_key
from bottega.tasks.synth.sample import LEVELS, Synthesised, synthesise, variant
from bottega.tasks.synth.similarity import ALIKE

VERSION = 3
"""Of the catalogue, the composer and the writer together: another version makes other tasks of the same seed."""


@dataclass(frozen=True)
class SynthPlan:
    count: int
    """Accepted tasks that are wanted, of this shard."""
    seed: int = 0
    device: str = "cpu"
    levels: tuple[int, ...] = LEVELS
    families: tuple[str, ...] = ()
    shard: int = 1
    shards: int = 1
    compiled: bool = False
    filtered: bool = True
    threshold: float = ALIKE
    away_from: str = ""
    """Digest of the tasks to stay away from."""
    shortest_ms: float = 0.0
    """The window of eager times; 0 takes the device's."""
    longest_ms: float = 0.0
    like: str = ""
    """Digest of the tasks that are varied, where none are composed."""

    def checked(self) -> SynthPlan:
        """The same with its window filled in; `UsageError` for what makes no sense."""
        target = target_of(self.device)
        if not 1 <= self.count <= 10_000_000:
            raise UsageError(f"count={self.count}: between 1 and 10,000,000")
        if not 1 <= self.shard <= self.shards <= 100_000:
            raise UsageError(f"shard={self.shard}/{self.shards}: write 2/8 for the second of eight")
        if not 0 < self.threshold <= 1:
            raise UsageError(f"threshold={self.threshold:g}: a similarity lies above 0 and up to 1")
        plan = replace(
            self, shortest_ms=self.shortest_ms or target.shortest_ms, longest_ms=self.longest_ms or target.longest_ms
        )
        if not 0 < plan.shortest_ms < plan.longest_ms:
            raise UsageError(f"a window from {plan.shortest_ms:g} to {plan.longest_ms:g} ms is empty")
        if not plan.like:
            synthesise(plan.seed, 0, plan.device, plan.levels, plan.families)
        elif plan.families:
            raise UsageError("--like takes the tasks as they are: leave --families out")
        return plan

    def is_mine(self, index: int) -> bool:
        return index % self.shards == self.shard - 1

    def terms(self) -> dict[str, object]:
        """All that decides what comes out, but for how many: a run may be made longer."""
        return {
            "version": VERSION,
            **{
                name: list(value) if isinstance(value, tuple) else value
                for name, value in asdict(self).items()
                if name != "count" and (name != "like" or value)
            },
        }


def parse_shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if match is None:
        raise UsageError(f"shard={text!r}: write 2/8 for the second of eight")
    return int(match[1]), int(match[2])


class Series:
    """The plan's samples in order, each with whether an earlier one of the whole series already is that task.

    Earlier samples count even where another shard examines them, so that every shard drops what the whole would drop. With `originals` a sample is a
    variation of one of them, in turn, and none is an original again.
    """

    def __init__(self, plan: SynthPlan, originals: Sequence[Task] = ()):
        self.plan = plan
        self.originals = sorted(originals, key=lambda task: (task.id, task.name))
        self._seen: set[str] = {tree_key(task.source) for task in originals}

    def __iter__(self) -> Iterator[tuple[Synthesised, bool]]:
        index = 0
        while True:
            made = self._sample(index)
            repeated = bool(self._seen & set(made.key))
            self._seen.update(made.key)
            if self.plan.is_mine(index):
                yield made, repeated
            index += 1

    def _sample(self, index: int) -> Synthesised:
        plan = self.plan
        if self.originals:
            return variant(self._original(index), plan.seed, index, plan.device)
        return synthesise(plan.seed, index, plan.device, plan.levels, plan.families)

    def _original(self, index: int) -> Task:
        """All in turn, in another order each time: every shard meets every one of them."""
        turn, place = divmod(index, len(self.originals))
        order = list(range(len(self.originals)))
        Random(f"{self.plan.seed}/{turn}").shuffle(order)
        return self.originals[order[place]]
