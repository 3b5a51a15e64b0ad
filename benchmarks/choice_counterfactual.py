"""Does a model read skill cards? It is taught counterfactually: the same task with two different cards is answered in two ways, and without one as
by the rule. Cards whose conditions do not hold are kept from it by code, in retrieval.

Then tasks of unseen kinds are answered without a card, with the right one (their own winner's, as a search found it), with the same card and other
advice, with BM25's first, with BM25's first whose conditions hold, and with those of the latter that the model itself selects; `choice_distil.py`
trains and measures. The prompts name the device, which those of the shipped model do not: `choice_prompts` has their wording.

    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py rows benchmarks/choice_sweep_h200 cards
    PYTHONPATH=src python3 benchmarks/choice_distil.py train cards cards --device cuda --epochs 3
    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py answer cards --device cuda
    PYTHONPATH=src python3 benchmarks/choice_distil.py measure cards --device cuda --seconds 150
    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py report cards
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import (
    BM25,
    CHECKED,
    FOUND,
    HERE,
    NONE,
    OFFERED,
    PICKED,
    RIGHT,
    SELECTOR,
    WRONG,
    Case,
    Known,
    Offer,
    chat,
    held_out_cases,
    known,
    library_of,
    retrieved,
    selecting,
    training_cases,
)
from choice_cards import ChoiceCard
from choice_distil import (
    ANSWERS,
    BEFORE,
    HELD_OUT,
    LONGEST_ANSWER,
    RULE,
    TIMES,
    code_of,
    ends,
    gain_of,
    generated,
    is_held_out,
    oracle,
    read_answer,
    table,
)
from choice_findings import device_of, findings, measurements
from choice_sweep import RESULTS, Row, rows_of, tasks_of
from choice_tasks import FUSED, SweepTask
from figure import Device, write_rows

from bottega.agents import selector
from bottega.agents.answers.answer import AnswerError
from bottega.compiler.answer_choices import changed

WRITTEN = (NONE, RIGHT, WRONG, FOUND, BM25, CHECKED)
CONTRASTS = (
    (RIGHT, NONE), (RIGHT, WRONG), (RIGHT, "before, right card"), (WRONG, NONE), (FOUND, NONE), (BM25, NONE), (CHECKED, NONE), (CHECKED, BM25),
    (SELECTOR, NONE), (SELECTOR, BM25), (SELECTOR, CHECKED), (NONE, BEFORE),
)  # fmt: skip

NONE_KEPT = 1 / 3
"""Of the selecting rows whose answer is no card."""

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows, the model, answers and times are kept.")]


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    processes: Annotated[int, typer.Option(min=1)] = 12,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
    own: Annotated[bool, typer.Option(help="The library that is searched has the winners of tasks set aside too.")] = True,
) -> None:
    """Write the training rows, and the prompts of tasks that are set aside. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    results = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    context = get_context("forkserver")
    with ProcessPoolExecutor(processes, context) as pool:
        every = list(pool.map(known, [tasks[row["task"]] for row in results], results, chunksize=4))
        train, held = ([one for one in every if is_held_out(one.row) == aside] for aside in (False, True))
        measured = list(measurements({one.task.id: one.places for one in every}, results))
        found = [
            one.card
            for one in findings(measured, device_of(results))
            if one.survives and not one.functions[0].startswith(FUSED)
        ]
        jobs = [(one, case) for one in train for case in training_cases(one)]
        made = [row for row in pool.map(chat, *zip(*jobs), chunksize=8) if row is not None]
        offers = {**retrieved(train, library_of(train)), **retrieved(held, library_of(every if own else train))}
        some = [one for one in train if offers[one.task.id].checked]
        asked = pool.map(selecting, some, [offers[one.task.id].checked for one in some], chunksize=8)
        # most tasks have no card that is faster: all of these would teach to pick none
        picks = [row for one, row in zip(some, asked) if _picks(row) or one.chance.random() < NONE_KEPT]
        write_rows(folder / "cards.jsonl", [*made, *picks])
        # those with a right card are measured first, where time is short
        aside = sorted((one for one in held if offers[one.task.id].unchecked), key=lambda one: not one.right)
        prompts = pool.map(_prompts, aside, [found] * len(aside), [offers[one.task.id] for one in aside], chunksize=4)
        write_rows(folder / HELD_OUT, [row for row in prompts if row is not None])
    nothing = sum(not _picks(row) for row in picks)
    print(f"{len(made)} writing rows {dict(Counter(row['kind'] for row in made))}; {len(found)} findings")
    print(f"{len(picks)} selecting rows, {nothing} of them with no card to pick")
    print(f"{len(aside)} tasks set aside; {sum(bool(one.right) for one in aside)} have a right card")
    for name, part in (("all cards", "unchecked"), ("those that hold", "checked")):
        offer = {one.task.id: getattr(offers[one.task.id], part) for one in aside}
        first = sum(bool(some) and some[0].name in one.own for one in aside if (some := offer[one.task.id]))
        among = sum(bool(one.own & {card.name for card in offer[one.task.id]}) for one in aside)
        print(f"BM25 over {name}: the right card first for {first}, among {OFFERED} for {among}")


def _picks(row: Row) -> bool:
    return bool(row["messages"][-1]["content"] != "none")


def _prompts(one: Known, found: Sequence[ChoiceCard], offered: Offer) -> Row:
    chats = {case.kind: chat(one, case) for case in held_out_cases(one, found, offered)}
    some = [change for change in one.task.variants if (change.place, change.label) in one.choices]
    return {
        **{key: one.row[key] for key in ("task", "name", "family", "dtype", "structure", "gain")},
        "chats": {kind: made for kind, made in chats.items() if made is not None},
        "select": selecting(one, offered.checked),
        "offered": [asdict(card) for card in offered.checked],
        "first": [asdict(card) for card in offered.unchecked[:1]],
        "right": sorted(one.own),
        "oracle": oracle(one.task, one.row),
        "random": changed(one.task.answer, [one.chance.choice(some)] if some else []),
        "row": one.row,
        "sweep": one.task.to_json(),
    }


# answer


@app.command()
def answer(
    folder: Folder,
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="As it was before.")] = "embedded",
    taught: Annotated[str, typer.Option(help="The model that was taught; else the folder's.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = LONGEST_ANSWER,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")] = 0,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """The models' greedy answers with every kind of card, and how often they are word for word what the cards ask for."""
    held = rows_of(folder / HELD_OUT)[: limit or None]
    taught = taught or f"local:{folder / 'cards' / 'model'}"
    picked = _generated(taught, device, [row["select"] for row in held], 256)
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        told = list(pool.map(_with_selected, held, picked, chunksize=4))
        for row, (chosen, _) in zip(held, told):
            if chosen is not None:
                row["chats"][SELECTOR] = chosen
        _tell_selections([worth for _, worth in told])
        ways = {kind: (taught, kind) for kind in (*WRITTEN, SELECTOR)} | {
            BEFORE: (model, NONE),
            "before, right card": (model, RIGHT),
        }
        made: list[Row] = []
        for spec in dict.fromkeys(spec for spec, _ in ways.values()):
            asked = [
                (row, way, row["chats"][kind])
                for way, (of, kind) in ways.items()
                if of == spec
                for row in held
                if kind in row["chats"]
            ]
            texts = _generated(spec, device, [one for _, _, one in asked], tokens)
            sources = list(pool.map(read_answer, texts, [row["sweep"]["source"] for row, _, _ in asked], chunksize=4))
            made += [
                {"task": row["task"], "way": way, "text": text, "source": source}
                for (row, way, _), text, source in zip(asked, texts, sources)
            ]
            _tell_obedience(asked, texts)
    write_rows(folder / ANSWERS, made)


def _generated(spec: str, device: str, chats: Sequence[Row], tokens: int) -> list[str]:
    begun = time.monotonic()
    texts = asyncio.run(generated(spec, device, [one["messages"][:-1] for one in chats], tokens))
    print(f"{len(texts)} answers of {spec} in {time.monotonic() - begun:.0f} s", flush=True)
    return texts


def _with_selected(row: Row, text: str) -> tuple[Row | None, dict[str, float]]:
    """The writer's prompt with the cards that the selector named; and what the first card of each way is worth by the sweep's table."""
    try:
        names = [choice.name for choice in selector.parse(text, PICKED)]
    except AnswerError:
        names = []
    offered = {card.name: card for card in map(ChoiceCard.from_json, row["offered"])}
    cards = tuple(offered[name] for name in names if name in offered)
    one = known(SweepTask.from_json(row["sweep"]), row["row"])
    firsts = {BM25: row["first"], CHECKED: row["offered"]}
    worth = {way: one.gain(ChoiceCard.from_json(some[0])) or 1.0 if some else 1.0 for way, some in firsts.items()}
    worth |= {SELECTOR: one.gain(cards[0]) or 1.0 if cards else 1.0}
    best = max([1.0, *(one.gain(card) or 1.0 for card in offered.values())])
    return chat(one, Case(SELECTOR, HERE, cards)), {**worth, "the best of those offered": best}


def _tell_selections(worth: Sequence[dict[str, float]]) -> None:
    """Of the first card alone, by the times of the sweep: no kernel is written for this."""
    for way in worth[0] if worth else ():
        print(
            f"first card by {way}: {ends([one[way] for one in worth])} over the rule, changes {sum(one[way] != 1 for one in worth)} tasks"
        )
    for one, other in ((SELECTOR, BM25), (SELECTOR, CHECKED), (CHECKED, BM25)):
        print(f"{one} over {other}, first card: {ends([gains[one] / gains[other] for gains in worth])}")


def _tell_obedience(asked: Sequence[tuple[Row, str, Row]], texts: Sequence[str]) -> None:
    """Beside what the cards ask for, how often that is not the rule's answer."""
    counts: dict[str, Counter[str]] = {}
    for (row, way, one), text in zip(asked, texts):
        wanted, rule = (code_of(each["messages"][-1]["content"]) for each in (one, row["chats"][NONE]))
        count = counts.setdefault(way, Counter())
        count["all"] += 1
        count["as the cards ask"] += code_of(text) == wanted
        count["asked for another answer"] += wanted != rule
        count["the rule's all the same"] += wanted != rule and code_of(text) == rule
    for way, count in counts.items():
        print(f"{way}: {dict(count)}", flush=True)


# report


@app.command()
def report(folder: Folder) -> None:
    """Print the table from what was measured, and what is compared on the same tasks."""
    found = rows_of(folder / TIMES)
    print("\n".join([*table(found), "", *contrasts(found)]))


def contrasts(found: Sequence[Row]) -> Iterator[str]:
    """One way over another on the tasks that have both, a wrong answer counted as the rule's."""
    timed = [row for row in found if row["times"][RULE]["ms"]]
    yield "| | tasks | faster, geometric mean, interval over tasks |"
    yield "|---|---|---|"
    for one, other in CONTRASTS:
        both = [row for row in timed if one in row["times"] and other in row["times"]]
        if both:
            yield f"| {one} over {other} | {len(both)} | {ends([(gain_of(row, one) or 1.0) / (gain_of(row, other) or 1.0) for row in both])} |"


if __name__ == "__main__":
    app()
