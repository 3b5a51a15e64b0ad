"""The second stage: from judged material to examples on both sides of the split, filtered, with a report of what was left out and why.

It reads the store, the library and the sketches and nothing else, runs no task and no kernel, and can be run again with other options.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.agents.answers.lint.bounds import reaches
from bottega.agents.writer import parse
from bottega.data.answers import UnreadableAnswer
from bottega.data.coverage import report
from bottega.data.diversity import diverse
from bottega.data.example import Example
from bottega.data.examples_selecting import selecting_examples
from bottega.data.examples_summarising import believed_examples, summarising_examples
from bottega.data.examples_writing import Desk, unjudged_examples, writing_examples
from bottega.data.material import Lesson
from bottega.data.outline import Runs, clusters, runs_of, words_of
from bottega.data.parallel import Room, SideBySide
from bottega.data.proofs import FACT
from bottega.data.renaming import renamings
from bottega.data.splits import Split, splits_of
from bottega.data.store import Bench, Store
from bottega.data.tokens import Count, sizes_of
from bottega.data.unjudged import Endings, unjudged


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


@dataclass
class _Made:
    """What came of a few tasks."""

    entries: list[Example | str] = field(default_factory=list)
    """Examples with their tokens, and why others were not made, in order."""
    faults: list[str] = field(default_factory=list)
    shapes: dict[str, Runs] = field(default_factory=dict)
    """Of the examples' code."""


def examples_of(store: Store, bench: Bench, desk: Desk, count: Count, processes: int | None = None) -> Outcome:
    """Of a large store in as many processes as there are cores, unless told otherwise; the outcome is the same."""
    outcome = Outcome()
    tasks = store.task_ids()
    room = Room(store, bench, desk, count, _endings(store, bench, desk, tasks), _proofs(store))
    with SideBySide(room, len(tasks), processes) as workers:
        sides = workers.begin(_sides, None)
        found: dict[str, Example] = {}
        shapes: dict[str, Runs] = {}
        for made in workers.pieces(_made, tasks):
            outcome.faults += made.faults
            shapes |= made.shapes
            for entry in made.entries:
                _take(entry, desk.stage.max_tokens, found, outcome)
        side = sides()
        split = [replace(example, split=side[example.task_id]) for example in found.values()]
        numbers = clusters([example.code for example in split], known=shapes)
        examples = [replace(example, cluster=number) for example, number in zip(split, numbers)]
        train = [example for example in examples if example.split == "train"]
        test = [example for example in examples if example.split == "test"]
        if desk.stage.filtered:
            kept, held = diverse(train, desk.stage.caps), diverse(test, desk.stage.caps)
            if left := len(examples) - len(kept) - len(held):
                outcome.lost["crowded out by the diversity filter"] += left
        else:
            kept, held = train, test
        outcome.coverage = report(train, kept)
        bare = [replace(example, code="") for example in kept]
        # Under other names, with one side of the split only: held-out tasks are as people wrote them.
        writing = [example for example in bare if example.role == "write"] if desk.stage.renamed else []
        copies = [copy for piece in workers.pieces(_renamed, writing) for copy in piece]
    by_number = (copy[number] for number in range(desk.stage.renamed) for copy in copies)
    outcome.examples = [*bare, *(copy for copy in by_number if copy), *(replace(example, code="") for example in held)]
    return outcome


def _endings(store: Store, bench: Bench, desk: Desk, tasks: list[str]) -> Endings:
    endings = Endings()
    if desk.stage.unjudged:
        judged = {task for task, _ in store.judged(bench)}
        for task in tasks:
            for lesson in store.lessons_of(task, bench) if task in judged else ():
                endings.see(lesson, desk.stage.baseline)
    return endings


def _proofs(store: Store) -> dict[str, list[dict[str, Any]]]:
    proofs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, proof in store.facts(FACT):
        if proof["step"] == "admit":
            proofs[proof["task_id"]].append({**proof, "name": name})
    return proofs


def _take(entry: Example | str, longest: int, found: dict[str, Example], outcome: Outcome) -> None:
    if isinstance(entry, str):
        outcome.lost[entry] += 1
        return
    outcome.made += 1
    if longest and entry.tokens > longest:
        outcome.lost[f"longer than {longest} tokens"] += 1
    elif (name := entry.id) in found:
        outcome.lost["the same example twice"] += 1
    else:
        found[name] = entry


# What is done in any process.


def _sides(room: Room, _: None) -> dict[str, Split]:
    return splits_of(list(room.store.subjects()), room.desk.stage.held_out, room.desk.stage.salt)


def _made(room: Room, tasks: Sequence[str]) -> _Made:
    made = _Made()
    for task in tasks:
        for lesson in room.store.lessons_of(task, room.bench):
            for example in _all_of(lesson, room, made):
                made.entries.append(example)  # one by one: what is lost on the way is noted between them
    examples = [entry for entry in made.entries if isinstance(entry, Example)]
    sizes = iter(sizes_of([example.messages for example in examples], room.count))
    made.entries = [replace(entry, tokens=next(sizes)) if isinstance(entry, Example) else entry for entry in made.entries]
    longest = room.desk.stage.max_tokens
    for entry in made.entries:
        if isinstance(entry, Example) and not (longest and entry.tokens > longest) and entry.code not in made.shapes:
            made.shapes[entry.code] = runs_of(words_of(entry.code))
    return made


def _all_of(lesson: Lesson, room: Room, made: _Made) -> Iterator[Example]:
    desk = room.desk
    makers: tuple[Iterator[Example], ...]
    if unjudged(lesson):
        shown = room.endings.chosen(lesson) if desk.stage.unjudged else None
        makers = (_within_reach(unjudged_examples(lesson, desk, shown), lesson, desk, made),) if shown is not None else ()
    else:
        makers = (
            writing_examples(lesson, desk),
            selecting_examples(lesson, desk, made.entries.append),
            summarising_examples(lesson, desk, room.proofs.get(lesson.task.id, []), made.entries.append),
            *((believed_examples(lesson, desk),) if desk.stage.believed else ()),
        )
    for maker in makers:
        try:
            yield from maker
        except UnreadableAnswer as error:
            made.faults.append(f"{lesson.task.label} in {lesson.language}: {error}")


def _within_reach(examples: Iterator[Example], lesson: Lesson, desk: Desk, made: _Made) -> Iterator[Example]:
    """Nobody judged these: one whose index arithmetic leaves its tensors would not be right."""
    sketch = desk.sketches.get(lesson.task.id, "") if lesson.language == "triton" else ""
    for example in examples:
        if sketch and reaches(parse(example.messages[-1].content).source, sketch):
            made.entries.append("reaches beyond its tensors")
        else:
            yield example


def _renamed(room: Room, examples: Sequence[Example]) -> list[list[Example | None]]:
    """The copies of each, None where there is none."""
    copies = [renamings(example, room.desk.stage.renamed) for example in examples]
    sizes = iter(sizes_of([copy.messages for of_one in copies for copy in of_one if copy], room.count))
    return [[replace(copy, tokens=next(sizes)) if copy else None for copy in of_one] for of_one in copies]
