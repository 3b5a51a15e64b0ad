"""The search index: BM25 over the current cards, by tantivy, in a folder beside the database. It can always be rebuilt from the database.

Adding a card does not touch it: a search first brings it up to the database's version, which costs some milliseconds when
something changed and nothing otherwise. A pointer file names the folder in use and the version it covers; it is replaced
atomically after the index has committed, and applying the same changes twice does no harm, so a kill at any moment leaves an index
that is at worst behind. One that is missing, foreign, or damaged is built anew in another folder.

Two fields: all of a card that describes it, and its head once more (name, tags, intent). A word's weight in one field levels off
after a few repetitions, so a card that is about softmax would score no better there than one that mentions it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import tantivy

from bottega.core.files import write_atomic
from bottega.core.skill import DEVICES, SkillState
from bottega.languages import index_bit
from bottega.skills.query import Query
from bottega.skills.store import SkillStore

FORMAT = 4
"""Raised when documents or analysis change: an index of another format is built anew."""
POINTER = "current.json"
TERMS = 24
LEAST = 0.1
"""A query keeps its most telling words, and none that tells less than this part of the best: the rest cost time and move nothing."""

_STATE_BITS = {SkillState.PROPOSED: 1, SkillState.ADMITTED: 2, SkillState.RETIRED: 4}
_DEVICE_BITS = {device: 256 << place for place, device in enumerate(DEVICES)}
CONDITIONAL = 1 << 60
"""The card has typed conditions, which its body tells."""
CONDITIONAL_WORD, CONDITIONAL_WEIGHT = "cardwithtypedconditions", 0.1
"""In the text of every such card: one whose conditions hold fits, also where it shares no word with the task. It comes behind those that do."""


class Found(NamedTuple):
    score: float
    row: int
    bits: int
    scope: int


@dataclass(frozen=True)
class IndexPointer:
    """Which folder is in use, and what it covers."""

    generation: str
    library: str
    version: int
    last: str
    """The last row it covers: a database put back from an older copy comes to the same version with other cards."""
    format: int = FORMAT


class SearchIndex:
    """One process's view of the index. Safe to use from several threads."""

    def __init__(self, store: SkillStore) -> None:
        self.store, self.folder = store, store.folder / "index"
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._open: tuple[IndexPointer, tantivy.Index] | None = None
        self._in_memory: dict[int, tantivy.Index] = {}
        self._lock = threading.RLock()

    def search(self, query: Query, limit: int, at: int | None = None) -> list[Found]:
        """The best rows by score. A damaged index is built anew, and where that cannot be done one is built in memory."""
        if self._process != os.getpid():  # a fork: the lock may be held by a thread that is not here
            self._forget()
        with self._lock:
            for way in (self._current, self._rebuilt) if at is None else ():
                try:
                    return _ask(way(), query, limit)
                except BaseException as error:
                    if not _is_damage(error):
                        raise
                    self._open = None
            with self.store.sound():
                return _ask(self._as_of(self._last_change() if at is None else at), query, limit)

    def terms(self, query: Query) -> list[tuple[str, float]]:
        """What a search looks up, and how much it weighs."""
        with self._lock:
            return _telling_terms(self._current().searcher(), query)

    def rebuild(self) -> None:
        """From the database, into a new folder; readers of the old one are not disturbed."""
        with self._lock:
            self._rebuilt()

    def close(self) -> None:
        with self._lock:
            self._open = None
            self._in_memory.clear()

    def _current(self) -> tantivy.Index:
        pointer, changed = self._pointer(), self._last_change()
        if pointer is not None and changed <= pointer.version:
            return self._opened(pointer)
        if not self.store.writable:
            return self._as_of(changed)
        with self._writing():
            pointer = self._pointer()
            if pointer is None:
                return self._build()
            return self._opened(pointer if changed <= pointer.version else self._catch_up(pointer))

    def _rebuilt(self) -> tantivy.Index:
        with self._writing():
            return self._build()

    def _opened(self, pointer: IndexPointer) -> tantivy.Index:
        if self._open is None or self._open[0].generation != pointer.generation:
            self._open = (pointer, _with_analyser(tantivy.Index.open(str(self.folder / pointer.generation))))
        elif self._open[0] != pointer:
            self._open[1].reload()
            self._open = (pointer, self._open[1])
        return self._open[1]

    def _catch_up(self, pointer: IndexPointer) -> IndexPointer:
        index = self._opened(pointer)
        writer, schema = index.writer(32_000_000, 1), index.schema
        with self.store.reading() as connection:
            version = _version(connection)
            gone = connection.execute("SELECT row FROM cards WHERE valid_to > ?", (pointer.version,))
            new = connection.execute(
                "SELECT row, body FROM cards WHERE valid_from > ? AND valid_to IS NULL", (pointer.version,)
            )
            # By a query: a number as a term is taken for a signed one, which is never found among these.
            for row in gone:
                writer.delete_documents_by_query(tantivy.Query.term_query(schema, "row", row["row"]))
            for row in new:
                writer.delete_documents_by_query(tantivy.Query.term_query(schema, "row", row["row"]))
                writer.add_document(_document(row["row"], json.loads(row["body"])))
            last = _last_row(connection, version)
        writer.commit()
        writer.wait_merging_threads()
        return self._write_pointer(IndexPointer(pointer.generation, pointer.library, version, last))

    def _build(self) -> tantivy.Index:
        generation = f"{int(time.time() * 1000):x}-{os.getpid():x}"
        place = self.folder / generation
        place.mkdir(parents=True)
        try:
            index = _with_analyser(tantivy.Index(_schema(), path=str(place)))
            with self.store.reading() as connection:
                version = _version(connection)
                documents = connection.execute("SELECT count(*) FROM cards WHERE valid_to IS NULL").fetchone()[0]
                last = _last_row(connection, version)
                library = connection.execute("SELECT value FROM meta WHERE key = 'library'").fetchone()[0]
                _fill(index, connection.execute("SELECT row, body FROM cards WHERE valid_to IS NULL"), documents)
            pointer = self._write_pointer(IndexPointer(generation, library, version, last))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        for old in self.folder.iterdir():
            if old.is_dir() and old.name != generation:
                shutil.rmtree(old, ignore_errors=True)
        self._open = None
        return self._opened(pointer)

    def _as_of(self, version: int) -> tantivy.Index:
        """An index in memory: for a version of the past, or where none can be written."""
        if version not in self._in_memory:
            index = _with_analyser(tantivy.Index(_schema()))
            with self.store.reading() as connection:
                rows = connection.execute(
                    "SELECT row, body FROM cards WHERE valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)",
                    (version, version),
                )
                _fill(index, rows, 0)
            self._in_memory = {version: index}
        return self._in_memory[version]

    def _last_change(self) -> int:
        """The last version that touched a card; trials and uses do not concern the index."""
        # Said so that each half is one look into an index: without its condition the second one reads the whole table.
        row = self.store.row(
            "SELECT (SELECT max(valid_from) FROM cards), (SELECT max(valid_to) FROM cards WHERE valid_to IS NOT NULL)"
        )
        return max(row[0] or 0, row[1] or 0) if row else 0

    def _pointer(self) -> IndexPointer | None:
        """The pointer, or nothing when there is none that is whole, of this format, and of this very database."""
        try:
            pointer = IndexPointer(**json.loads((self.folder / POINTER).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        if pointer.format != FORMAT or type(pointer.version) is not int or not (self.folder / str(pointer.generation)).is_dir():
            return None
        if self._open is not None and self._open[0] == pointer:
            return pointer
        with self.store.reading() as connection:
            library = connection.execute("SELECT value FROM meta WHERE key = 'library'").fetchone()[0]
            known = pointer.version <= _version(connection) and _last_row(connection, pointer.version) == pointer.last
        return pointer if known and pointer.library == library else None

    def _write_pointer(self, pointer: IndexPointer) -> IndexPointer:
        write_atomic(self.folder / POINTER, json.dumps(asdict(pointer)).encode())
        return pointer

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """The one writer among all processes. Who waits for another one finds the index up to date afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_damage(error: BaseException) -> bool:
    """What tantivy raises on broken files; a panic of its Rust code is no `Exception` and cannot be imported."""
    broken = ValueError | OSError | RuntimeError | SystemError | KeyError | TypeError
    return isinstance(error, broken) or type(error).__name__ == "PanicException"


def analyser() -> tantivy.TextAnalyzer:
    """Words without case, punctuation and English endings."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(48))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def _with_analyser(index: tantivy.Index) -> tantivy.Index:
    index.register_tokenizer("card", analyser())
    return index


def bits_of(state: SkillState | None = None, language: str | None = None, device: str | None = None) -> int:
    return (
        (_STATE_BITS[state] if state else 0)
        | (index_bit(language) if language else 0)
        | (_DEVICE_BITS[device] if device else 0)
    )


def scope_number(scope: str) -> int:
    return zlib.crc32(scope.encode())


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", stored=False, indexed=True, fast=True)
    builder.add_unsigned_field("bits", fast=True)
    builder.add_unsigned_field("scope", fast=True)
    for field in ("head", "text"):
        builder.add_text_field(field, tokenizer_name="card", index_option="freq")
    return builder.build()


def _document(row: int, body: dict[str, Any]) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned("row", row)
    bits = bits_of(SkillState(body["state"]))
    for language in body["languages"]:
        bits |= bits_of(language=language)
    for device in body["devices"]:
        bits |= bits_of(device=device)
    document.add_unsigned("bits", bits | (CONDITIONAL if body.get("applies_to") else 0))
    document.add_unsigned("scope", scope_number(body["scope"]))
    head, text = described(body)
    document.add_text("head", head)
    document.add_text("text", f"{text}\n{CONDITIONAL_WORD}" if body.get("applies_to") else text)
    return document


def described(body: dict[str, Any]) -> tuple[str, str]:
    """What a card is searched by: its head, and everything."""
    head = "\n".join((body["name"], *body["tags"], body["intent"]))
    return head, "\n".join((head, body["anchor"], body["technique"], *body["conditions"].values()))


def _fill(index: tantivy.Index, rows: Iterable[sqlite3.Row], total: int) -> None:
    writer = index.writer(256_000_000 if total > 50_000 else 32_000_000, 2 if total > 50_000 else 1)
    for row in rows:
        writer.add_document(_document(row["row"], json.loads(row["body"])))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(version) FROM changes").fetchone()[0] or 0)


def _last_row(connection: sqlite3.Connection, version: int) -> str:
    query = "SELECT row, name, state, hash FROM cards WHERE valid_from <= ? ORDER BY valid_from DESC, row DESC LIMIT 1"
    row = connection.execute(query, (version,)).fetchone()
    return " ".join(map(str, row)) if row else ""


def _telling_terms(searcher: tantivy.Searcher, query: Query) -> list[tuple[str, float]]:
    """The terms to look up: a query's words as the index knows them, those first that are rare and weigh much."""
    analyse, weights = analyser(), dict[str, float]()
    for word, weight in query.terms.items():
        for term in analyse.analyze(word):
            weights[term] = max(weight, weights.get(term, 0.0))
    total, known = searcher.num_docs, []
    for term, weight in weights.items():
        cards = searcher.doc_freq("text", term)
        if cards:
            known.append((weight * math.log1p(total / cards), term, weight))
    known.sort(reverse=True)
    return [(term, weight) for worth, term, weight in known[:TERMS] if worth >= LEAST * known[0][0]]


def _ask(index: tantivy.Index, query: Query, limit: int) -> list[Found]:
    searcher = index.searcher()
    total = searcher.num_docs
    clauses = [
        (tantivy.Occur.Should, tantivy.Query.boost_query(tantivy.Query.term_query(index.schema, field, term, "freq"), weight))
        for term, weight in _telling_terms(searcher, query)
        for field in ("head", "text")
    ]
    if query.conditional:
        clauses += [
            (tantivy.Occur.Should, tantivy.Query.boost_query(tantivy.Query.term_query(index.schema, "text", term, "freq"), CONDITIONAL_WEIGHT))
            for term in analyser().analyze(CONDITIONAL_WORD)
        ]  # fmt: skip
    if not clauses or not total:
        return []
    # The collector makes room for its limit at once, whatever there is to find.
    hits = searcher.search(tantivy.Query.boolean_query(clauses), limit=min(limit, total), count=False).hits
    places = [place for _, place in hits]
    columns = [searcher.fast_field_values(name, places) for name in ("row", "bits", "scope")]
    return [Found(float(hit[0]), int(row), int(bits), int(scope)) for hit, row, bits, scope in zip(hits, *columns)]
