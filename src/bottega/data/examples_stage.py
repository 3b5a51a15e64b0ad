"""The second stage: from judged records to examples on both sides of the split, filtered, with a report of what was left out and why.

It reads the store, the library and the call graphs and nothing else, runs no task and no kernel, and can be run again with other options.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.data.answers import UnreadableAnswer
from bottega.data.breadth import report
from bottega.data.diversity import diverse
from bottega.data.example import Example
from bottega.data.examples_selecting import selecting_examples
from bottega.data.examples_summarising import believed_examples, summarising_examples
from bottega.data.examples_writing import ExampleContext, unjudged_examples, writing_examples
from bottega.data.parallel import ExampleJob, ProcessMap
from bottega.data.proofs import FACT
from bottega.data.records import JudgedTask
from bottega.data.splits import Split, splits_of
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.structure import Runs, clusters, runs_of, words_of
from bottega.data.tokens import Count, sizes_of
from bottega.data.unjudged import Endings, unjudged


@dataclass
class ExampleSet:
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


def examples_of(
    store: JudgedStore, judge_setup: JudgeSetup, context: ExampleContext, count: Count, processes: int | None = None
) -> ExampleSet:
    """Of a large store in as many processes as there are cores, unless `processes` says otherwise; the outcome is the same."""
    outcome = ExampleSet()
    tasks = store.task_ids()
    job = ExampleJob(store, judge_setup, context, count, _endings(store, judge_setup, context, tasks), _proofs(store))
    with ProcessMap(job, len(tasks), processes) as workers:
        sides = workers.begin(_sides, None)
        found: dict[str, Example] = {}
        shapes: dict[str, Runs] = {}
        for made in workers.pieces(_made, tasks):
            outcome.faults += made.faults
            shapes |= made.shapes
            for entry in made.entries:
                _take(entry, context.stage.max_tokens, found, outcome)
        side = sides()
        split = [replace(example, split=side[example.task_id]) for example in found.values()]
        numbers = clusters([example.code for example in split], known=shapes)
        examples = [replace(example, cluster=number) for example, number in zip(split, numbers)]
        train = [example for example in examples if example.split == "train"]
        test = [example for example in examples if example.split == "test"]
        if context.stage.filtered:
            kept, held = diverse(train, context.stage.caps), diverse(test, context.stage.caps)
            if left := len(examples) - len(kept) - len(held):
                outcome.lost["crowded out by the diversity filter"] += left
        else:
            kept, held = train, test
        outcome.coverage = report(train, kept)
    outcome.examples = [replace(example, code="") for example in (*kept, *held)]
    return outcome


def _endings(store: JudgedStore, judge_setup: JudgeSetup, context: ExampleContext, tasks: list[str]) -> Endings:
    endings = Endings()
    if context.stage.unjudged:
        judged = {task for task, _ in store.judged(judge_setup)}
        for task in tasks:
            for judged_task in store.judged_tasks_of(task, judge_setup) if task in judged else ():
                endings.see(judged_task, context.stage.baseline)
    return endings


def _proofs(store: JudgedStore) -> dict[str, list[dict[str, Any]]]:
    proofs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, proof in store.facts(FACT):
        if proof["step"] == "admit":
            proofs[proof["task_id"]].append({**proof, "name": name})
    return proofs


def _take(entry: Example | str, longest: int, found: dict[str, Example], outcome: ExampleSet) -> None:
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


def _sides(job: ExampleJob, _: None) -> dict[str, Split]:
    return splits_of(list(job.store.task_records()), job.context.stage.held_out, job.context.stage.salt)


def _made(job: ExampleJob, tasks: Sequence[str]) -> _Made:
    made = _Made()
    for task in tasks:
        for judged_task in job.store.judged_tasks_of(task, job.judge_setup):
            for example in _all_of(judged_task, job, made):
                made.entries.append(example)  # one by one: what is lost on the way is noted between them
    examples = [entry for entry in made.entries if isinstance(entry, Example)]
    sizes = iter(sizes_of([example.messages for example in examples], job.count))
    made.entries = [replace(entry, tokens=next(sizes)) if isinstance(entry, Example) else entry for entry in made.entries]
    longest = job.context.stage.max_tokens
    for entry in made.entries:
        if isinstance(entry, Example) and not (longest and entry.tokens > longest) and entry.code not in made.shapes:
            made.shapes[entry.code] = runs_of(words_of(entry.code))
    return made


def _all_of(judged_task: JudgedTask, job: ExampleJob, made: _Made) -> Iterator[Example]:
    context = job.context
    makers: tuple[Iterator[Example], ...]
    if unjudged(judged_task):
        shown = job.endings.chosen(judged_task) if context.stage.unjudged else None
        makers = (unjudged_examples(judged_task, context, shown),) if shown is not None else ()
    else:
        makers = (
            writing_examples(judged_task, context),
            selecting_examples(judged_task, context, made.entries.append),
            summarising_examples(judged_task, context, job.proofs.get(judged_task.task.id, []), made.entries.append),
            *((believed_examples(judged_task, context),) if context.stage.believed else ()),
        )
    for maker in makers:
        try:
            yield from maker
        except UnreadableAnswer as error:
            made.faults.append(f"{judged_task.task.label} in {judged_task.language}: {error}")
