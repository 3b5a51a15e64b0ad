"""The second stage: from judged material to examples on both sides of the split, filtered, with a report of what was left out and why.

It reads the store and the library and nothing else, runs no task and no kernel, and can be run again with other options.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.learn.cold_start.answers import UnreadableAnswer
from bottega.learn.cold_start.coverage import report
from bottega.learn.cold_start.diversity import diverse
from bottega.learn.cold_start.example import Example
from bottega.learn.cold_start.examples_selecting import selecting_examples
from bottega.learn.cold_start.examples_summarising import summarising_examples
from bottega.learn.cold_start.examples_writing import Desk, unjudged_example, writing_examples
from bottega.learn.cold_start.material import Lesson
from bottega.learn.cold_start.outline import clusters
from bottega.learn.cold_start.proofs import FACT
from bottega.learn.cold_start.renaming import renamed
from bottega.learn.cold_start.splits import splits_of
from bottega.learn.cold_start.store import Bench, Store
from bottega.learn.cold_start.tokens import Count, size_of
from bottega.learn.cold_start.unjudged import Endings, unjudged


@dataclass
class Outcome:
    """What came of it."""

    examples: list[Example] = field(default_factory=list)
    """That stay, both sides, in order."""
    made: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    """What was left out, by reason."""
    faults: list[str] = field(default_factory=list)
    """Answers that could not be read back: bugs of ours, each in a line."""
    coverage: list[dict[str, Any]] = field(default_factory=list)
    """Of the training side, before and after the filter."""


def examples_of(store: Store, bench: Bench, desk: Desk, count: Count) -> Outcome:
    outcome = Outcome()
    subjects = list(store.subjects())
    sides = splits_of(subjects, desk.stage.held_out, desk.stage.salt)
    proofs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, proof in store.facts(FACT):
        if proof["step"] == "admit":
            proofs[proof["task_id"]].append({**proof, "name": name})
    found: dict[str, Example] = {}
    endings = Endings()
    if desk.stage.unjudged:
        for lesson in store.lessons(bench):
            endings.see(lesson, desk.stage.baseline, desk.stage.concise)
    for lesson in store.lessons(bench):
        for example in _all_of(lesson, desk, proofs[lesson.task.id], endings, outcome):
            outcome.made += 1
            tokens = size_of(example.messages, count)
            if desk.stage.max_tokens and tokens > desk.stage.max_tokens:
                outcome.lost[f"longer than {desk.stage.max_tokens} tokens"] += 1
            elif example.id in found:
                outcome.lost["the same example twice"] += 1
            else:
                found[example.id] = replace(example, split=sides[example.task_id], tokens=tokens)
    examples = _clustered(list(found.values()))
    train = [example for example in examples if example.split == "train"]
    test = [example for example in examples if example.split == "test"]
    if desk.stage.filtered:
        kept, held = diverse(train, desk.stage.caps), diverse(test, desk.stage.caps)
        if left := len(examples) - len(kept) - len(held):
            outcome.lost["crowded out by the diversity filter"] += left
    else:
        kept, held = train, test
    outcome.coverage = report(train, kept)
    copies = _renamed(kept, desk.stage.renamed, count)
    outcome.examples = [replace(example, code="") for example in (*kept, *copies, *held)]
    return outcome


def _all_of(lesson: Lesson, desk: Desk, proofs: list[dict[str, Any]], endings: Endings, outcome: Outcome) -> Iterator[Example]:
    if unjudged(lesson):
        shown = endings.drawn(lesson) if desk.stage.unjudged else None
        if shown is not None:
            yield unjudged_example(lesson, desk, shown)
        return

    def lost(reason: str) -> None:
        outcome.lost[reason] += 1

    makers = (
        writing_examples(lesson, desk),
        selecting_examples(lesson, desk, lost),
        summarising_examples(lesson, desk, proofs, lost),
    )
    for maker in makers:
        try:
            yield from maker
        except UnreadableAnswer as error:
            outcome.faults.append(f"{lesson.task.label} in {lesson.language}: {error}")


def _renamed(examples: list[Example], copies: int, count: Count) -> list[Example]:
    """Under other names, with one side of the split only: held-out tasks are as people wrote them."""
    writing = [example for example in examples if example.role == "write"]
    found = [copy for number in range(copies) for example in writing if (copy := renamed(example, number)) is not None]
    return [replace(copy, tokens=size_of(copy.messages, count)) for copy in found]


def _clustered(examples: list[Example]) -> list[Example]:
    return [replace(example, cluster=number) for example, number in zip(examples, clusters([one.code for one in examples]))]
