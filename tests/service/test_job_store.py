"""The store: one content one id, no change of state that was not expected, and what a crash leaves is taken up again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bottega.core.errors import UsageError
from bottega.service.records import Request
from bottega.service.store import Store

ASKED = Request("alice", "verdict", ("cpu",), "a task", "task", "a candidate", "candidate", "cpp", '{"quick": true}')


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.close()


def reopened(store: Store) -> Store:
    """As after a kill: nothing was closed properly but the lock."""
    store.close()
    return Store(store.path.parent)


def test_the_same_content_is_the_same_request() -> None:
    first = ASKED.id("8")
    assert replace(ASKED, priority=5).id("8") == first
    others = [
        {"token": "bob"},
        {"candidate": "b"},
        {"task": "b"},
        {"settings": "{}"},
        {"devices": ("cuda",)},
        {"run": "2"},
        {"kind": "check"},
    ]
    others += [{"candidate_name": "b"}, {"language": "triton"}, {"task_name": "b"}]
    assert len({first, ASKED.id("9"), *(replace(ASKED, **other).id("8") for other in others)}) == 2 + len(others)  # type: ignore[arg-type]


def test_what_was_accepted_is_judged_once(store: Store) -> None:
    record, new = store.accept("x", ASKED)
    assert new and record.state == "queued"
    assert store.accept("x", ASKED)[1] is False
    begun = store.start("x", "cpu")
    assert begun is not None and begun[1].candidate == "a candidate" and begun[1].settings == '{"quick": true}'
    assert store.start("x", "cpu") is None
    assert store.finish("x", begun[0].attempt, "done", {"outcome": "same"}, task_id="t")
    assert not store.finish("x", begun[0].attempt, "failed", error="late")
    record, new = store.accept("x", ASKED)
    assert not new and record.state == "done" and record.result == {"outcome": "same"}
    assert store.task_source("alice", "t") == ("a task", "task") and store.task_source("bob", "t") is None


def test_a_late_verdict_of_a_cancelled_attempt_changes_nothing(store: Store) -> None:
    store.accept("x", ASKED)
    first = store.start("x", "cpu")
    assert first is not None and store.cancel("x") and not store.cancel("x")
    assert store.accept("x", ASKED)[1], "a cancelled request may be asked again"
    second = store.start("x", "cpu")
    assert second is not None and second[0].attempt > first[0].attempt
    assert not store.finish("x", first[0].attempt, "done", {"outcome": "old"})
    assert store.finish("x", second[0].attempt, "done", {"outcome": "new"})
    assert store.get("x").result == {"outcome": "new"}  # type: ignore[union-attr]


def test_what_ran_at_a_crash_runs_again_and_not_a_third_time(store: Store) -> None:
    for id in ("running", "waiting"):
        store.accept(id, replace(ASKED, candidate=id))
    for crash in (1, 2):
        assert store.start("running", "cpu") is not None
        again = reopened(store)
        waiting = {record.id for record in again.recover()}
        assert waiting == ({"running", "waiting"} if crash == 1 else {"waiting"})
        record = again.get("running")
        store.__dict__.update(again.__dict__)  # the fixture closes what is open
    assert record is not None and record.state == "failed" and "went down" in record.error
    assert store.accept("running", replace(ASKED, candidate="running"))[1], "its owner may try again"


def test_a_clean_stop_is_nobodys_fault(store: Store) -> None:
    store.accept("x", ASKED)
    for _ in range(5):
        begun = store.start("x", "cpu")
        assert begun is not None
        store.back_to_queue("x", begun[0].attempt)
        assert [record.id for record in store.recover()] == ["x"]


def _ended(store: Store, id: str, token: str, size: int) -> None:
    store.accept(id, replace(ASKED, token=token, candidate=id * size))
    begun = store.start(id, "cpu")
    assert begun is not None and store.finish(id, begun[0].attempt, "done", {})


def test_nobodys_results_are_pushed_out_by_anothers(store: Store) -> None:
    for number in range(5):
        _ended(store, f"b{number}", "bob", 1000)
    for number in range(300):
        _ended(store, f"a{number}", "alice", 5000)
    for number in range(300):
        store.accept(f"w{number}", replace(ASKED, token="carol", candidate=f"w{number}" * 5000))
    assert 0 < store.prune(3600.0, 1) < 300, "alice has most of what can be deleted, until she has less than the average"
    assert all(store.get(f"b{number}") for number in range(5)) and store.get("w0") and store.get("a299") and not store.get("a0")
    assert list(store.bytes_of()) == ["carol", "alice", "bob"]


def test_a_file_from_before_sizes_were_counted_is_taken_over(store: Store) -> None:
    _ended(store, "x", "alice", 10)
    store._db.executescript("DROP INDEX by_owners_end; ALTER TABLE requests DROP COLUMN bytes")
    again = reopened(store)
    assert again.bytes_of()["alice"] > 0 and again.get("x")
    store.__dict__.update(again.__dict__)


def test_two_servers_do_not_share_a_folder(store: Store) -> None:
    with pytest.raises(UsageError, match="another `bottega serve`"):
        Store(store.path.parent)


def test_text_that_is_no_unicode_survives(store: Store) -> None:
    store.accept("x", replace(ASKED, candidate="\ud800 \0 \U0001f600"))
    begun = store.start("x", "cpu")
    assert begun is not None and begun[1].candidate == "\ud800 \0 \U0001f600"


def test_old_results_go_by_age_and_by_size_and_nothing_that_waits(store: Store) -> None:
    for number in range(30):
        store.accept(str(number), replace(ASKED, candidate=str(number) * 20_000))
        begun = store.start(str(number), "cpu")
        assert begun is not None and store.finish(str(number), begun[0].attempt, "done", {})
    store.accept("waits", replace(ASKED, candidate="w" * 20_000))
    assert store.prune(3600.0, 1 << 30) == 0
    size = store.bytes()
    assert store.prune(3600.0, size // 2) > 0 and store.bytes() < size
    store._db.execute("UPDATE requests SET ended = ? WHERE state = 'done'", (time.time() - 7200,))
    store.prune(3600.0, 1 << 30)
    assert store.get("waits") is not None and store.get("29") is None
    assert store._db.execute("SELECT COUNT(*) FROM texts").fetchone()[0] == 2, "the waiting request's task and candidate"
