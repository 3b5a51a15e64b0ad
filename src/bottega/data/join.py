"""Several data folders as one: each row once, what any of them holds out held out by all, and nothing like the tasks that will be measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bottega.compiler.callgraph_tracer import CallGraphTracer
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.data_card import changed_files, counts_of_rows, facts_of_files, read_card, write_card
from bottega.data.data_files import read_rows, write_rows
from bottega.data.records import UNJUDGED

_CALLED = re.compile(r"^t\d\w*(?:, t\w+)* = ([^\W\d]\w*)\(", re.M)
"""A call as a prompt prints it."""
FEWEST_CALLS = 3
"""Shorter call graphs than that say nothing of whether a task is another's."""

Row = Mapping[str, Any]


@dataclass
class Joined:
    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    sources: dict[str, int] = field(default_factory=dict)
    """Rows of each folder that are in it, by the folder's name."""


def joined(folders: Sequence[Path], without: Iterable[Task] = (), times: Mapping[str, int] | None = None) -> Joined:
    """`without`: no row to train on has the calls of one of these tasks. `times`: how often rows of a role or kind are there."""
    whole, seen = Joined(), set[str]()
    for folder in folders:
        read_card(folder)  # a folder without a card is an error before anything is read
    with CallGraphTracer() as tracer:  # it runs the task's code, in a sandbox
        unseen = {_compared(call.operator for call in graph.calls) for task in without if (graph := tracer.trace(task))} - {()}
    held_out = {tuple(row["ops"]) for folder in folders for row in read_rows(folder) if row["split"] == "test"}
    for folder in folders:
        for row in read_rows(folder):
            training = row["split"] == "train"
            if row["id"] in seen:
                whole.left_out["there already"] += 1
            elif training and tuple(row["ops"]) in held_out:
                whole.left_out["operators that another folder holds out"] += 1
            elif training and _compared(_CALLED.findall(row["messages"][-2]["content"])) in unseen:
                whole.left_out["the calls of a task to stay away from"] += 1
            else:
                seen.add(row["id"])
                copies = max((times or {}).get(row["role"], 1), (times or {}).get(row["kind"], 1)) if training else 1
                whole.rows += [row] * copies
                whole.sources[folder.name] = whole.sources.get(folder.name, 0) + copies
    if not whole.rows:
        raise UsageError("nothing is left to join")
    return whole


def write_joined(whole: Joined, folders: Sequence[Path], out: Path, command: str) -> dict[str, Any]:
    """The rows and their card; `UsageError` where a folder's rows are not those that its card speaks of."""
    cards = [read_card(folder) for folder in folders]
    for folder, card in zip(folders, cards):
        if changed := changed_files(folder, card):
            raise UsageError(
                f"{folder}: {', '.join(changed)} changed since the card was written; run --stage examples there again"
            )
    styles = sorted({card["style"] for card in cards})
    if len(styles) > 1:
        raise UsageError(f"the folders have prompts of several styles: {', '.join(styles)}; a model learns one")
    out.mkdir(parents=True, exist_ok=True)
    files = write_rows(out, whole.rows)
    outcomes = [str(row["outcome"] or UNJUDGED) for row in whole.rows]
    card = {
        **counts_of_rows(whole.rows, outcomes, cards[0]["tokens"]["counted_by"]),
        "made": sum(int(card["examples"]) for card in cards),
        "left_out": dict(whole.left_out.most_common()),
        "unreadable": [],
        "coverage": [],
        "material": {},
        "joined": whole.sources,
        "command": command,
        "teachers": sorted({teacher for card in cards for teacher in card["teachers"]}),
        "judge": _one_or_all(card["judge"] for card in cards),
        "device": _one_or_all(card["device"] for card in cards),
        "tasks_from": sorted({place for card in cards for place in card["tasks_from"]}),
        "seeds": sorted({seed for card in cards for seed in card["seeds"]}),
        "style": styles[0],
        "files": facts_of_files(files),
    }
    write_card(out, card)
    return card


def _compared(operators: Iterable[str]) -> tuple[str, ...]:
    """The operators of a call graph in order; none of one that is too short to tell tasks apart."""
    found = tuple(operators)
    return found if len(found) >= FEWEST_CALLS else ()


def _one_or_all(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values) - {"none"})) or "none"
