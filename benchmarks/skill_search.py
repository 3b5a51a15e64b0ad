"""How fast a skill library of many cards is searched, changed and opened, beside rank_bm25 and bm25s on the same cards and queries.

Cards are made up: sentences and lines of code from the starter cards with a part of their words replaced by words of a Zipf
vocabulary, one card in a hundred a near-duplicate of another. Queries come from the built-in tasks. The others get each card's text
as one list of terms and the same terms to look for, without weights; they answer with row numbers, Bottega with the cards read
from its database. Every measurement has a process of its own. Options --cards can be given several times.

    PYTHONPATH=src python3 benchmarks/skill_search.py --cards 10000 --cards 100000
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import accumulate, cycle, islice
from pathlib import Path
from typing import Annotated, Any

import typer

VOCABULARY = 30_000
FOREIGN = 0.3
"""Share of the words that are replaced."""
VARIANTS = 60
"""Of every sentence and line."""
TWINS = 100
"""One card in so many is a near-duplicate."""
K = 20
RIVALS = ("rank_bm25", "bm25s")
ADDITIONS = 200
LARGEST_LIST = 5_000
"""Bytes that rank_bm25 takes for a card: where that would fill half the memory, it is left out."""
SHORT_S, FEW = 60.0, 20
"""A rival is asked for so long, but so often at least."""

_SENTENCE = re.compile(r"(?<=[.:;])\s+|\n(?:- )?")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_SYLLABLES = "ba co di fu ge ka lo mi nu pe ra so ti vu ze tal ren mor sil dun".split()  # noqa: SIM905


class Author:
    """Writes card number n, always the same."""

    def __init__(self) -> None:
        from bottega.skills.advice_lint import lazy_advice
        from bottega.skills.starter import starter_cards

        self.draw = random.Random(20261115)
        self.models = starter_cards()
        words: dict[str, None] = {}
        while len(words) < VOCABULARY:
            words["".join(self.draw.choices(_SYLLABLES, k=self.draw.choice((2, 3, 3, 4))))] = None
        self.words, self.share = list(words), list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
        self.terms = sorted({word for card in self.models for word in card.name.split("_") if word.isalpha()})
        self.prose: list[list[str]] = []
        self.code: list[list[list[str]]] = []
        for card in self.models:
            text = "\n".join((card.intent, card.anchor, card.technique, card.effect, *card.failures))
            text = "\n".join((text, *(value for _, value in card.conditions.items())))
            sentences = [part.strip()[:150] for part in _SENTENCE.split(text) if len(part.strip()) >= 15]
            varied = (self.vary(part) for part in sentences for _ in range(VARIANTS))
            self.prose.append([part for part in varied if lazy_advice(part) is None])
            lines = [line for line in card.example.splitlines() if line.strip()]
            self.code.append([[self.vary(line) for _ in range(VARIANTS)] for line in lines])

    def vary(self, text: str) -> str:
        def other(match: re.Match[str]) -> str:
            if self.draw.random() > FOREIGN:
                return match.group()
            return self.draw.choices(self.words, cum_weights=self.share)[0]

        return _LONG_WORD.sub(other, text)

    def name(self, number: int) -> str:
        """Distinct: the number in another order, spelt in words."""
        count = len(self.terms)
        place = number * 1_000_003 % (count * count * len(self.words))
        return f"{self.terms[place % count]}_{self.words[place // count // count]}_{self.terms[place // count % count]}"

    def card(self, number: int) -> Any:
        from bottega.core.skill import DEVICES, Conditions, Provenance, Skill, SkillState
        from bottega.languages import kernel_languages

        names = tuple(language.name for language in kernel_languages())

        if number % TWINS == TWINS - 1:
            return replace(self.card(number - TWINS // 2), name=self.name(number), anchor=self.models[0].anchor)
        draw = random.Random(number)
        topic, other = draw.randrange(len(self.models)), draw.randrange(len(self.models))
        model, lines = self.models[topic], self.code[topic]
        said = [draw.choice(self.prose[topic if draw.random() < 0.7 else other]) for _ in range(draw.randrange(15, 23))]
        first = draw.randrange(max(1, len(lines) - 24))
        return Skill(
            name=self.name(number),
            intent=f"{said[0]}; {said[1]}"[:160].strip(),
            scope=model.scope if draw.random() < 0.7 else "general",
            tags=tuple(dict.fromkeys((*draw.choices(model.tags, k=2), draw.choice(self.terms), draw.choice(self.words)))),
            languages=(draw.choice(names),) if draw.random() < 0.9 else names[:2],
            devices=(draw.choice(DEVICES),) if draw.random() < 0.8 else DEVICES,
            conditions=Conditions(said[2], said[3], said[4], "none" if draw.random() < 0.5 else said[5], said[6]),
            anchor=said[7],
            technique="- " + "\n- ".join(said[8:-3]),
            example="\n".join(draw.choice(line) for line in lines[first : first + 24]),
            effect=said[-3],
            failures=tuple(said[-2:]),
            provenance=Provenance("synthetic", str(number)),
            state=SkillState.ADMITTED if draw.random() < 0.9 else SkillState.PROPOSED,
        )


def fill(folder: str, count: int) -> dict[str, Any]:
    from bottega.core.errors import CardError
    from bottega.skills.library import Library

    author, seconds = Author(), 0.0
    with Library(folder) as library:
        for first in range(0, count, 5000):
            cards = [author.card(number) for number in range(first, min(count, first + 5000))]
            begun = time.perf_counter()
            try:
                library.add_many(cards)
            except CardError:  # sentences put together at random can be lazy advice: that one is lost
                library.add_many(filter(_is_let_in, cards))
            seconds += time.perf_counter() - begun
            print(f"\r{first + len(cards):,} cards, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return {"cards": len(library), "seconds": seconds, "peak_mb": peak_mb()}


def _is_let_in(card: Any) -> bool:
    from bottega.core.errors import CardError
    from bottega.skills.validation import admit_data

    try:
        admit_data(card.to_json(), card.name)
    except CardError:
        return False
    return True


def rebuild(folder: str) -> dict[str, Any]:
    from bottega.skills.library import Library

    with Library(folder) as library:
        begun = time.perf_counter()
        library.index.rebuild()
        return {"seconds": time.perf_counter() - begun, "peak_mb": peak_mb()}


def search(folder: str, count: int) -> dict[str, Any]:
    """In a fresh process, once the library is open."""
    from bottega.skills.library import Library

    queries = list(islice(cycle(_queries()), count))
    with Library(folder) as library:
        library.search(queries[0], K)
        return {"ms": [_timed(library.search, query, K) for query in queries], "peak_mb": peak_mb()}


def additions(folder: str, first: int, count: int) -> dict[str, Any]:
    """Cards added one by one."""
    from bottega.skills.library import Library

    author = Author()
    cards = list(filter(_is_let_in, (author.card(number) for number in range(first, first + count))))
    with Library(folder) as library:
        library.search(_queries()[0], K)
        return {"ms": [_timed(library.add, card) for card in cards]}


def terms_asked(folder: str) -> list[list[str]]:
    """What Bottega looks up for each query, so that the others look up no more."""
    from bottega.skills.library import Library

    with Library(folder) as library:
        return [[term for term, _ in library.index.terms(query)] for query in _queries()]


def rank_bm25(folder: str, terms: list[list[str]], count: int) -> dict[str, Any]:
    import numpy as np

    okapi = _rival("rank_bm25").BM25Okapi
    admitted: list[bool] = []
    begun = time.perf_counter()
    index = okapi(_documents(folder, admitted))
    built, allowed = time.perf_counter() - begun, np.array(admitted)

    def ask(words: list[str]) -> Any:
        scores = np.where(allowed, index.get_scores(words), -np.inf)
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]

    return {"build_s": built, "ms": _asked(ask, terms, count), "peak_mb": peak_mb()}


def bm25s(folder: str, terms: list[list[str]], count: int) -> dict[str, Any]:
    import numpy as np

    admitted: list[bool] = []
    numbers: dict[str, int] = {}
    begun = time.perf_counter()
    index = _rival("bm25s").BM25(method="lucene", k1=1.2, b=0.75)
    documents = [[numbers.setdefault(term, len(numbers)) for term in words] for words in _documents(folder, admitted)]
    index.index((documents, numbers), show_progress=False)
    built, allowed = time.perf_counter() - begun, np.array(admitted, dtype=np.float32)
    del documents

    def ask(words: list[str]) -> Any:
        return index.retrieve([words], k=K, weight_mask=allowed, show_progress=False)

    return {"build_s": built, "ms": _asked(ask, terms, count), "peak_mb": peak_mb()}


def _rival(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise RuntimeError(f"{name} is not installed: pip install 'bottega[bench]', or give --without-others") from None


def _asked(ask: Callable[[list[str]], Any], terms: list[list[str]], count: int) -> list[float]:
    ask(terms[0])
    taken: list[float] = []
    for words in islice(cycle(terms), count):
        taken.append(_timed(ask, words))
        if sum(taken) > 1e3 * SHORT_S and len(taken) >= FEW:
            break
    return taken


def _documents(folder: str, admitted: list[bool]) -> Iterator[list[str]]:
    """Each card's terms, with every word kept once in memory."""
    from bottega.skills.index import analyser, described
    from bottega.skills.library import Library

    analyse, words = analyser(), dict[str, str]()
    with Library(folder) as library:
        for row in library.store.connection.execute("SELECT body FROM cards WHERE valid_to IS NULL ORDER BY row"):
            body = json.loads(row["body"])
            admitted.append(body["state"] == "admitted")
            yield [words.setdefault(term, term) for term in analyse.analyze(described(body)[1])]


def _queries() -> list[Any]:
    from bottega.skills.query import query_for
    from bottega.tasks.load import load_tasks

    return [query_for(task) for task in load_tasks(["builtin"]).tasks]


def _timed(work: Callable[..., Any], *arguments: Any) -> float:
    begun = time.perf_counter()
    work(*arguments)
    return 1e3 * (time.perf_counter() - begun)


def peak_mb() -> float:
    """Of this program: `getrusage` would also count the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own, with the machine's load before and after where the answer has room for it."""
    load = os.getloadavg()[0]
    print(f"{work.__name__} …", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(work, *arguments).result()
    if isinstance(found, dict):
        found["load"] = [round(load, 2), round(os.getloadavg()[0], 2)]
    return found


def measure(folder: str, cards: int, queries: int, added: int, others: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"cards": cards, "import": apart(fill, folder, cards), "rebuild": apart(rebuild, folder)}
    found["search"] = apart(search, folder, queries)
    if others:
        terms = apart(terms_asked, folder)
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if cards * LARGEST_LIST < free / 2:
            found["rank_bm25"] = apart(rank_bm25, folder, terms, queries)
        found["bm25s"] = apart(bm25s, folder, terms, queries)
    found["additions"] = apart(additions, folder, cards, added)
    return found


def table(found: dict[str, Any]) -> list[list[str]]:
    from figure import percentile

    def row(label: str, mine: float, *others: float | None) -> list[str]:
        cells = [label, f"{mine:,.1f}"]
        for other in others or (None, None):
            cells += ["", ""] if other is None else [f"{other:,.1f}", f"{other / mine:,.1f}x"]
        return cells

    def theirs(kind: str) -> list[float | None]:
        return [found[name][kind] if name in found else None for name in RIVALS]

    def spread_of(name: str) -> tuple[float | None, float | None]:
        values = found[name]["ms"] if name in found else ()
        return (percentile(values, 0.5), percentile(values, 0.95)) if values else (None, None)

    searches = zip(("p50", "p95"), spread_of("search"), *map(spread_of, RIVALS))
    return [
        *(row(f"search {name}, ms", mine or 0.0, *rivals) for name, mine, *rivals in searches),
        row("memory at its peak, MB", found["search"]["peak_mb"], *theirs("peak_mb")),
        row("index built anew, s", found["rebuild"]["seconds"], *theirs("build_s")),
        *(row(f"a card added {name}, ms", value or 0.0) for name, value in zip(("p50", "p95"), spread_of("additions"))),
    ]


def main(
    cards: Annotated[list[int] | None, typer.Option(min=1000, help="Size of a library; can be given several times.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Searches to time.")] = 305,
    added: Annotated[int, typer.Option(min=100, help="Cards to add one by one.")] = ADDITIONS,
    without_others: Annotated[bool, typer.Option("--without-others", help="Leave out rank_bm25 and bm25s.")] = False,
    scratch: Annotated[Path | None, typer.Option(help="Where to build the libraries; a million cards take 5 GB.")] = None,
) -> None:
    from figure import show, where

    if not without_others:
        for name in RIVALS:
            _rival(name)
    for count in cards or [10_000]:
        with tempfile.TemporaryDirectory(prefix="skill_search_", dir=scratch) as folder:
            found = measure(folder, count, queries, added, not without_others)
        loads = [load for part in found.values() if isinstance(part, dict) for load in part["load"]]
        remarks = [where("cpu"), f"load of the machine {min(loads):.1f} to {max(loads):.1f}"]
        if not without_others and "rank_bm25" not in found:
            remarks.append(f"rank_bm25 left out: it would take about {count * LARGEST_LIST / 1e9:.0f} GB")
        show(f"a library of {count:,} cards", ("", "Bottega", "rank_bm25", "", "bm25s", ""), table(found), remarks)


if __name__ == "__main__":
    from figure import launch

    launch(main)
