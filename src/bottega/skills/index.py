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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import tantivy

from bottega.core.errors import LibraryError
from bottega.core.skill import DEVICES, SkillState
from bottega.languages import index_bit
from bottega.skills.index_files import IndexPointer, check_sum, last_row, read_pointer, segment_files, write_pointer
from bottega.skills.query import Query
from bottega.skills.store import SkillStore, to_do

TERMS = 24
LEAST = 0.1
"""A query keeps its most telling words, and none that tells less than this part of the best: the rest cost time and move nothing."""
PATIENCE_S = 2.0
"""How long a search waits for another process that is bringing the index up to date, before it takes the index as it is."""

Progress = Callable[[int, int], None]
_STATE_BITS = {SkillState.PROPOSED: 1, SkillState.ADMITTED: 2, SkillState.RETIRED: 4}
_DEVICE_BITS = {device: 256 << place for place, device in enumerate(DEVICES)}


class Found(NamedTuple):
    score: float
    row: int
    bits: int
    scope: int


class SearchIndex:
    """One process's view of the index. Safe to use from several threads."""

    def __init__(self, store: SkillStore) -> None:
        self.store, self.folder = store, store.folder / "index"
        self._forget()
        self.behind = 0
        """Changes of cards that the last search did not see, because another process was still writing the index."""

    def _forget(self) -> None:
        self._process = os.getpid()
        self._open: tuple[IndexPointer, tantivy.Index] | None = None
        self._past: dict[int, tantivy.Index] = {}
        self._sound: set[str] = set()
        self._lock = threading.RLock()

    def search(self, query: Query, limit: int, at: int | None = None) -> list[Found]:
        """The best rows by score. A damaged index is built anew, and where that cannot be done one is built in memory."""
        if self._process != os.getpid():  # a fork: the lock may be held by a thread that is not here
            self._forget()
        with self._lock:
            ways = (self._current, self._looked_at_again, self._built_anew, self._as_of)
            for way in ways if at is None else (lambda: self._as_of(at),):
                try:
                    return _ask(way(), query, limit)
                except BaseException as error:
                    if not _is_damage(error):
                        raise
                    self._open, reason = None, str(error)
            raise LibraryError(f"{self.store.path}: the cards cannot be searched: {reason}. {to_do(self.store.folder)}")

    def terms(self, query: Query) -> list[tuple[str, float]]:
        """What a search looks up, and how much it weighs."""
        with self._lock:
            return _telling_terms(self._current().searcher(), query)

    def rebuild(self, progress: Progress | None = None) -> None:
        """From the truth, into a new folder; readers of the old one are not disturbed."""
        try:
            with self._lock, self._writing(patience=600.0) as mine:
                if mine:
                    self._build(progress)
        except BaseException as error:
            if not _is_damage(error):
                raise
            raise LibraryError(
                f"{self.folder}: the index cannot be built: {error}. Searches will build one in memory, if the cards can be read"
            ) from None

    def close(self) -> None:
        with self._lock:
            self._open = None
            self._past.clear()

    def _current(self) -> tantivy.Index:
        """The index, up to date unless another process is at it."""
        pointer = self._pointer()
        changed = self._last_change()
        if pointer is not None and changed <= pointer.version:
            self.behind = 0
            return self._opened(pointer)
        if not self.store.writable:
            return self._as_of()
        with self._writing(PATIENCE_S) as mine:
            pointer = self._pointer()
            if not mine:
                if pointer is None:
                    return self._as_of()
                self.behind = max(0, changed - pointer.version)
                return self._opened(pointer, exact=False)
            self.behind = 0
            if pointer is None:
                return self._build(None)
            if changed > pointer.version:
                pointer = self._catch_up(pointer)
            return self._opened(pointer)

    def _looked_at_again(self) -> tantivy.Index:
        """What looked damaged may be an index that another process was just replacing: with the lock held, nobody is."""
        with self._writing(PATIENCE_S) as mine:
            pointer = self._pointer()
            if pointer is None or self._last_change() > pointer.version:
                raise ValueError("it is behind as well")
            return self._opened(pointer, exact=mine)

    def _built_anew(self) -> tantivy.Index:
        with self._writing(PATIENCE_S) as mine:
            return self._build(None) if mine else self._as_of()

    def _loaded(self, generation: str) -> tantivy.Index:
        place = self.folder / generation
        for file in segment_files(place):
            if file.name not in self._sound:
                check_sum(file)
                self._sound.add(file.name)
        index = tantivy.Index.open(str(place))
        index.register_tokenizer("card", analyser())
        return index

    def _opened(self, pointer: IndexPointer, exact: bool = True) -> tantivy.Index:
        """The index that a pointer names; while another process writes it, the pointer may be a little behind."""
        if self._open is None or self._open[0].generation != pointer.generation:
            self._open = (pointer, self._loaded(pointer.generation))
        elif self._open[0] != pointer:
            self._open[1].reload()
            self._open = (pointer, self._open[1])
        else:
            return self._open[1]
        if exact and self._open[1].searcher().num_docs != pointer.documents:
            raise ValueError("the index does not hold what its pointer says")
        return self._open[1]

    def _catch_up(self, pointer: IndexPointer) -> IndexPointer:
        index = self._open[1] if self._open and self._open[0].generation == pointer.generation else None
        if index is None:
            index = self._loaded(pointer.generation)
        writer, schema = index.writer(32_000_000, 1), index.schema
        with self.store.reading() as connection:
            version, documents = _version(connection), pointer.documents
            gone = connection.execute("SELECT row, valid_from FROM cards WHERE valid_to > ?", (pointer.version,))
            new = connection.execute(
                "SELECT row, body FROM cards WHERE valid_from > ? AND valid_to IS NULL", (pointer.version,)
            )
            # Counted by what changed: counting all cards takes a while when there are many.
            # By a query: a number as a term is taken for a signed one, which is never found among these.
            for row in gone:
                writer.delete_documents_by_query(tantivy.Query.term_query(schema, "row", row["row"]))
                documents -= row["valid_from"] <= pointer.version
            for row in new:
                writer.delete_documents_by_query(tantivy.Query.term_query(schema, "row", row["row"]))
                writer.add_document(_document(row["row"], json.loads(row["body"])))
                documents += 1
            last = last_row(connection, version)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        if index.searcher().num_docs != documents:
            raise ValueError("the index does not hold what was put into it")
        pointer = write_pointer(self.folder, IndexPointer(pointer.generation, pointer.library, version, documents, last))
        self._open = (pointer, index)
        return pointer

    def _build(self, progress: Progress | None) -> tantivy.Index:
        generation = f"{int(time.time() * 1000):x}-{os.getpid():x}"
        place = self.folder / generation
        place.mkdir(parents=True)
        try:
            index = tantivy.Index(_schema(), path=str(place))
            index.register_tokenizer("card", analyser())
            with self.store.reading() as connection:
                version = _version(connection)
                documents = connection.execute("SELECT count(*) FROM cards WHERE valid_to IS NULL").fetchone()[0]
                last = last_row(connection, version)
                library = connection.execute("SELECT value FROM meta WHERE key = 'library'").fetchone()[0]
                _fill(index, connection.execute("SELECT row, body FROM cards WHERE valid_to IS NULL"), documents, progress)
            pointer = write_pointer(self.folder, IndexPointer(generation, library, version, documents, last))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        for old in self.folder.iterdir():
            if old.is_dir() and old.name != generation:
                shutil.rmtree(old, ignore_errors=True)
        self._open = None
        return self._opened(pointer)

    def _as_of(self, at: int | None = None) -> tantivy.Index:
        """An index in memory: for a version of the past, or for a library that cannot be written."""
        key = self._last_change() if at is None else at
        if key not in self._past:
            index = tantivy.Index(_schema())
            index.register_tokenizer("card", analyser())
            with self.store.reading() as connection:
                rows = connection.execute(
                    "SELECT row, body FROM cards WHERE valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)", (key, key)
                )
                _fill(index, rows, 0, None)
            while len(self._past) >= 2:
                self._past.pop(next(iter(self._past)))
            self._past[key] = index
        return self._past[key]

    def _last_change(self) -> int:
        """The last version that touched a card; trials and uses do not concern the index."""
        # Said so that each half is one look into an index: without its condition the second one reads the whole table.
        row = self.store.row(
            "SELECT (SELECT max(valid_from) FROM cards), (SELECT max(valid_to) FROM cards WHERE valid_to IS NOT NULL)"
        )
        return max(row[0] or 0, row[1] or 0) if row else 0

    def _pointer(self) -> IndexPointer | None:
        """The pointer, or nothing when there is none that is ours, whole, and of this format."""
        pointer = read_pointer(self.folder)
        if pointer is None:
            return None
        row = self.store.row("SELECT (SELECT value FROM meta WHERE key = 'library'), (SELECT max(version) FROM changes)")
        sound = row is not None and pointer.library == row[0] and pointer.version <= (row[1] or 0)
        if sound and (self._open is None or self._open[0] != pointer):
            with self.store.reading() as connection:
                sound = last_row(connection, pointer.version) == pointer.last
        return pointer if sound else None

    @contextlib.contextmanager
    def _writing(self, patience: float) -> Iterator[bool]:
        """The one writer among all processes; false when another one still is after that many seconds."""
        if not self.store.writable:
            yield False
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a", encoding="utf-8") as file:
            deadline = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        yield False
                        return
                    time.sleep(0.005)
            yield True


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
    document.add_unsigned("bits", bits)
    document.add_unsigned("scope", scope_number(body["scope"]))
    head, text = described(body)
    document.add_text("head", head)
    document.add_text("text", text)
    return document


def described(body: dict[str, Any]) -> tuple[str, str]:
    """What a card is searched by: its head, and everything."""
    head = "\n".join((body["name"], *body["tags"], body["intent"]))
    return head, "\n".join((head, body["anchor"], body["technique"], *body["conditions"].values()))


def _fill(index: tantivy.Index, rows: Iterable[sqlite3.Row], total: int, progress: Progress | None) -> None:
    writer = index.writer(256_000_000 if total > 50_000 else 32_000_000, 2 if total > 50_000 else 1)
    for count, row in enumerate(rows, 1):
        writer.add_document(_document(row["row"], json.loads(row["body"])))
        if progress is not None and count % 1000 == 0:
            progress(count, total)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(version) FROM changes").fetchone()[0] or 0)


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
    if not clauses:
        return []
    # The collector makes room for its limit at once, whatever there is to find.
    hits = searcher.search(tantivy.Query.boolean_query(clauses), limit=min(limit, total), count=False).hits
    places = [place for _, place in hits]
    columns = [searcher.fast_field_values(name, places) for name in ("row", "bits", "scope")]
    return [Found(float(hit[0]), int(row), int(bits), int(scope)) for hit, row, bits, scope in zip(hits, *columns)]
