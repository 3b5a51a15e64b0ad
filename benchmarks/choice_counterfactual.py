"""Does a model read skill cards? It is taught counterfactually: the same task with two different cards is answered in two ways, and without one as
by the rule. Cards whose conditions do not hold are kept from it by code, in retrieval.

Then tasks of unseen kinds are answered without a card, with the right one (their own winner's, as a search found it), and with the same card and
other advice; `choice_distil.py` trains and measures. The prompts name the device, which those of the shipped model do not: `choice_prompts` has
their wording.

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
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import NONE, RIGHT, WRONG, Known, chat, held_out_cases, known, training_cases
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
from choice_sweep import RESULTS, Row, rows_of, tasks_of
from figure import Device, write_rows

from bottega.compiler.answer_choices import changed

CONTRASTS = ((RIGHT, NONE), (RIGHT, WRONG), (RIGHT, "before, right card"), (WRONG, NONE), (NONE, BEFORE))

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows, the model, answers and times are kept.")]


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    processes: Annotated[int, typer.Option(min=1)] = 12,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
) -> None:
    """Write the training rows, and the prompts of tasks that are set aside. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    results = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    context = get_context("forkserver")
    with ProcessPoolExecutor(processes, context) as pool:
        every = list(pool.map(known, [tasks[row["task"]] for row in results], results, chunksize=4))
        train, held = ([one for one in every if is_held_out(one.row) == aside] for aside in (False, True))
        jobs = [(one, case) for one in train for case in training_cases(one)]
        made = [row for row in pool.map(chat, *zip(*jobs), chunksize=8) if row is not None]
        write_rows(folder / "cards.jsonl", made)
        # those with a right card are measured first, where time is short
        aside = sorted(held, key=lambda one: not one.right)
        write_rows(folder / HELD_OUT, pool.map(_prompts, aside, chunksize=4))
    print(f"{len(made)} rows {dict(Counter(row['kind'] for row in made))}")
    print(f"{len(aside)} tasks set aside; {sum(bool(one.right) for one in aside)} have a right card")


def _prompts(one: Known) -> Row:
    chats = {case.kind: chat(one, case) for case in held_out_cases(one)}
    some = [change for change in one.task.variants if (change.place, change.label) in one.choices]
    return {
        **{key: one.row[key] for key in ("task", "name", "family", "dtype", "structure", "gain")},
        "chats": {kind: made for kind, made in chats.items() if made is not None},
        "oracle": oracle(one.task, one.row),
        "random": changed(one.task.answer, [one.chance.choice(some)] if some else []),
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
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        ways = {kind: (taught, kind) for kind in (NONE, RIGHT, WRONG)} | {
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
