"""The search index: BM25 over the current cards, by tantivy, in a folder beside the database. It is never the truth.

Adding a card does not touch it: a search first brings it up to the database's version, which costs some milliseconds when
something changed and nothing otherwise. A pointer file names the folder in use and the version it covers; it is replaced
atomically after the index has committed, and applying the same changes twice does no harm, so a kill at any moment leaves an index
that is at worst behind. One that is missing, foreign, or damaged is built anew in another folder.

Field weights are repetitions inside one field (BM25F): weighting happens before term frequency saturates, and a query asks one
posting list for each word instead of six.
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
from dataclasses import dataclass
from typing import Any

import tantivy

from bottega.core.skill import DEVICES, LANGUAGES, State
from bottega.skills.query import Query
from bottega.skills.store import Store

FORMAT = 1
"""Raised when documents or analysis change: an index of another format is built anew."""
WEIGHTS = {"name": 4, "tags": 3, "intent": 3, "anchor": 2, "technique": 1, "conditions": 1}
TERMS = 24
"""A query keeps its most telling words; the rest would cost time and move nothing."""
PATIENCE_S = 2.0
"""How long a search waits for another process that is bringing the index up to date, before it takes the index as it is."""

Progress = Callable[[int, int], None]
_STATE_BITS = {State.PROPOSED: 1, State.ADMITTED: 2, State.RETIRED: 4}
_LANGUAGE_BITS = {language: 8 << place for place, language in enumerate(LANGUAGES)}
_DEVICE_BITS = {device: 256 << place for place, device in enumerate(DEVICES)}


@dataclass(frozen=True)
class Pointer:
    """Which folder is in use, and what it covers."""

    generation: str
    library: str
    version: int
    documents: int
    format: int = FORMAT


@dataclass(frozen=True)
class Found:
    score: float
    row: int
    bits: int
    scope: int


class SearchIndex:
    """One process's view of the index. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self.store, self.folder = store, store.folder / "index"
        self._open: tuple[Pointer, tantivy.Index] | None = None
        self._past: dict[int, tantivy.Index] = {}
        self._lock = threading.RLock()
        self.behind = 0
        """Changes of cards that the last search did not see, because another process was still writing the index."""

    def search(self, query: Query, limit: int, at: int | None = None) -> list[Found]:
        """The best rows by score. A damaged index is built anew, once."""
        with self._lock:
            if at is not None:
                return _ask(self._as_of(at), query, limit)
            try:
                return _ask(self._current(), query, limit)
            except BaseException as error:
                if not _is_damage(error):
                    raise
                self._open = None
                return _ask(self.rebuild(), query, limit)

    def rebuild(self, progress: Progress | None = None) -> tantivy.Index:
        """From the truth, into a new folder; readers of the old one are not disturbed."""
        with self._lock, self._writing(patience=600.0) as mine:
            if not mine:
                return self._as_of(None)
            return self._build(progress)

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
            return self._as_of(None)
        with self._writing(PATIENCE_S) as mine:
            pointer = self._pointer()
            if not mine:
                if pointer is None:
                    return self._as_of(None)
                self.behind = max(0, changed - pointer.version)
                return self._opened(pointer)
            self.behind = 0
            if pointer is None:
                return self._build(None)
            if changed > pointer.version:
                pointer = self._catch_up(pointer)
            return self._opened(pointer)

    def _opened(self, pointer: Pointer) -> tantivy.Index:
        if self._open is None or self._open[0].generation != pointer.generation:
            index = tantivy.Index.open(str(self.folder / pointer.generation))
            index.register_tokenizer("card", analyser())
            self._open = (pointer, index)
        elif self._open[0] != pointer:
            self._open[1].reload()
            self._open = (pointer, self._open[1])
        else:
            return self._open[1]
        if self._open[1].searcher().num_docs != pointer.documents:
            raise ValueError("the index does not hold what its pointer says")
        return self._open[1]

    def _catch_up(self, pointer: Pointer) -> Pointer:
        index = self._open[1] if self._open and self._open[0].generation == pointer.generation else None
        if index is None:
            index = tantivy.Index.open(str(self.folder / pointer.generation))
            index.register_tokenizer("card", analyser())
        writer = index.writer(32_000_000, 1)
        with self.store.reading() as connection:
            version, documents = _extent(connection)
            gone = connection.execute("SELECT row FROM cards WHERE valid_to > ?", (pointer.version,))
            new = connection.execute(
                "SELECT row, body FROM cards WHERE valid_from > ? AND valid_to IS NULL", (pointer.version,)
            )
            for row in gone:
                writer.delete_documents_by_term("row", row["row"])
            for row in new:
                writer.delete_documents_by_term("row", row["row"])
                writer.add_document(_document(row["row"], json.loads(row["body"])))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._open = None
        return self._point(Pointer(pointer.generation, pointer.library, version, documents))

    def _build(self, progress: Progress | None) -> tantivy.Index:
        generation = f"{int(time.time() * 1000):x}-{os.getpid():x}"
        place = self.folder / generation
        place.mkdir(parents=True)
        index = tantivy.Index(_schema(), path=str(place))
        index.register_tokenizer("card", analyser())
        with self.store.reading() as connection:
            version, documents = _extent(connection)
            library = connection.execute("SELECT value FROM meta WHERE key = 'library'").fetchone()[0]
            _fill(index, connection.execute("SELECT row, body FROM cards WHERE valid_to IS NULL"), documents, progress)
        pointer = self._point(Pointer(generation, library, version, documents))
        for old in self.folder.iterdir():
            if old.is_dir() and old.name != generation:
                shutil.rmtree(old, ignore_errors=True)
        self._open = None
        return self._opened(pointer)

    def _as_of(self, at: int | None) -> tantivy.Index:
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
        row = self.store.row("SELECT max((SELECT max(valid_from) FROM cards), coalesce((SELECT max(valid_to) FROM cards), 0))")
        return int(row[0] or 0) if row else 0

    def _pointer(self) -> Pointer | None:
        """The pointer, or nothing when there is none that is ours, whole, and of this format."""
        try:
            pointer = Pointer(**json.loads((self.folder / "current.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        row = self.store.row("SELECT value FROM meta WHERE key = 'library'")
        ours = pointer.format == FORMAT and row is not None and pointer.library == row[0]
        # A database that was put back from an older copy is behind its index.
        known = self.store.row("SELECT max(version) FROM changes")
        sound = ours and known is not None and pointer.version <= int(known[0] or 0)
        return pointer if sound and (self.folder / pointer.generation).is_dir() else None

    def _point(self, pointer: Pointer) -> Pointer:
        temporary = self.folder / f"current.{os.getpid()}.{threading.get_ident()}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(pointer.__dict__, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / "current.json")
        return pointer

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
    return isinstance(error, ValueError | OSError | RuntimeError | SystemError) or type(error).__name__ == "PanicException"


def analyser() -> tantivy.TextAnalyzer:
    """Words without case, punctuation and English endings."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(48))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def bits_of(state: State | None = None, language: str | None = None, device: str | None = None) -> int:
    return (
        (_STATE_BITS[state] if state else 0)
        | (_LANGUAGE_BITS[language] if language else 0)  # type: ignore[index]
        | (_DEVICE_BITS[device] if device else 0)
    )


def scope_number(scope: str) -> int:
    return zlib.crc32(scope.encode())


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", stored=False, indexed=True, fast=True)
    builder.add_unsigned_field("bits", fast=True)
    builder.add_unsigned_field("scope", fast=True)
    builder.add_text_field("text", tokenizer_name="card", index_option="freq")
    return builder.build()


def _document(row: int, body: dict[str, Any]) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned("row", row)
    bits = bits_of(State(body["state"]))
    for language in body["languages"]:
        bits |= bits_of(language=language)
    for device in body["devices"]:
        bits |= bits_of(device=device)
    document.add_unsigned("bits", bits)
    document.add_unsigned("scope", scope_number(body["scope"]))
    texts = {**body, "tags": " ".join(body["tags"]), "conditions": " ".join(body["conditions"].values())}
    for field, weight in WEIGHTS.items():
        for _ in range(weight):
            document.add_text("text", texts[field])
    return document


def _fill(index: tantivy.Index, rows: Iterable[sqlite3.Row], total: int, progress: Progress | None) -> None:
    writer = index.writer(256_000_000 if total > 50_000 else 32_000_000, 2 if total > 50_000 else 1)
    for count, row in enumerate(rows, 1):
        writer.add_document(_document(row["row"], json.loads(row["body"])))
        if progress is not None and count % 1000 == 0:
            progress(count, total)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def _extent(connection: sqlite3.Connection) -> tuple[int, int]:
    version = connection.execute("SELECT max(version) FROM changes").fetchone()[0] or 0
    documents = connection.execute("SELECT count(*) FROM cards WHERE valid_to IS NULL").fetchone()[0]
    return int(version), int(documents)


def _ask(index: tantivy.Index, query: Query, limit: int) -> list[Found]:
    searcher, schema, analyse = index.searcher(), index.schema, analyser()
    weights: dict[str, float] = {}
    for word, weight in query.terms.items():
        for term in analyse.analyze(word):
            weights[term] = max(weight, weights.get(term, 0.0))
    known = [(term, weight, searcher.doc_freq("text", term)) for term, weight in weights.items()]
    known = [part for part in known if part[2]]
    total = searcher.num_docs
    known.sort(key=lambda part: (part[1] * math.log1p(total / part[2]), part[0]), reverse=True)
    if not known:
        return []
    clauses = [
        (tantivy.Occur.Should, tantivy.Query.boost_query(tantivy.Query.term_query(schema, "text", term, "freq"), weight))
        for term, weight, _ in known[:TERMS]
    ]
    hits = searcher.search(tantivy.Query.boolean_query(clauses), limit=limit, count=False).hits
    places = [place for _, place in hits]
    columns = [searcher.fast_field_values(name, places) for name in ("row", "bits", "scope")]
    return [Found(float(hit[0]), int(row), int(bits), int(scope)) for hit, row, bits, scope in zip(hits, *columns)]
