"""The log of a run: on the disk before anything is reported, read back whole, mended after a kill, and written by one process only."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bottega.core.errors import UsageError
from bottega.core.event import Event, Judged, RunStarted, Wrote
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.attempts import seconds_of
from bottega.episodes.journal import FILE, EpisodeJournal, read_events


def judged(key: str) -> Judged:
    verdict = Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, diagnosis="half a \ud800 pair")
    return Judged(key, "episode", key, verdict, seconds=0.5)


def wrote(key: str) -> Wrote:
    return Wrote(
        key, "episode", "n0", None, 0, Turn("write", "text", prompt_ids=(1, 2), output_ids=(), logprobs=(), source="x")
    )


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    with EpisodeJournal(tmp_path) as journal:
        kept = [journal.write(RunStarted("command", {"turns": 2}, {})), journal.write(wrote("a")), journal.write(judged("b"))]
    assert list(read_events(tmp_path)) == kept
    assert [event.at > 0 for event in kept] == [True] * 3


def test_a_clock_that_is_set_back_or_forward_takes_nothing_of_the_time_that_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with EpisodeJournal(tmp_path) as journal:
        journal.write(RunStarted("command", {}, {}))
        for hours in (-1, 1):
            monkeypatch.setattr(time, "time", lambda: real() + 3600 * hours)  # noqa: B023
            journal.write(wrote(f"{hours}"))
            assert 0 <= seconds_of(journal.events) < 1800


def test_what_has_a_key_is_done_once(tmp_path: Path) -> None:
    made: list[str] = []

    async def make() -> Judged:
        made.append("made")
        await asyncio.sleep(0)
        return judged("a")

    async def run() -> None:
        with EpisodeJournal(tmp_path) as journal:
            both = await asyncio.gather(*(journal.once("a", Judged, make) for _ in range(3)))
            assert both[0] == both[1] == both[2]
        with EpisodeJournal(tmp_path) as journal:
            assert (await journal.once("a", Judged, make)) == both[0]
            assert journal.done("a", Wrote) is None

    asyncio.run(run())
    assert made == ["made"]


def test_what_fails_is_told_to_all_who_wait_and_can_be_done_again(tmp_path: Path) -> None:
    async def fail() -> Judged:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def run() -> None:
        with EpisodeJournal(tmp_path) as journal:
            found = await asyncio.gather(*(journal.once("a", Judged, fail) for _ in range(2)), return_exceptions=True)
            assert [str(error) for error in found] == ["no", "no"]

            async def make() -> Judged:
                return judged("a")

            await journal.once("a", Judged, make)

    asyncio.run(run())


def test_a_cut_last_line_is_dropped_and_mended(tmp_path: Path) -> None:
    with EpisodeJournal(tmp_path) as journal:
        journal.write(judged("a"))
        journal.write(judged("b"))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-7])
    assert [event.key for event in read_events(tmp_path)] == ["a"]
    with EpisodeJournal(tmp_path) as journal:
        assert journal.done("b", Judged) is None
        journal.write(judged("c"))
    assert [event.key for event in read_events(tmp_path)] == ["a", "c"]


@pytest.mark.parametrize("damage", [b"{garbage\n", b'{"type":"unknown"}\n', b'{"type":"judged"}\n', b"\xff\xfe\n", b"[]\n"])
def test_a_damaged_line_in_the_middle_is_named_and_nothing_is_touched(tmp_path: Path, damage: bytes) -> None:
    with EpisodeJournal(tmp_path) as journal:
        journal.write(judged("a"))
        journal.write(judged("b"))
    path = tmp_path / FILE
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + second)
    with pytest.raises(UsageError, match=r"line 2 is damaged .* remove it"):
        EpisodeJournal(tmp_path)
    assert path.read_bytes() == first + damage + second
    path.write_bytes(first + second)
    with EpisodeJournal(tmp_path) as journal:  # the failed attempt holds no lock
        assert len(journal.events) == 2


def test_a_second_process_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    code = f"from pathlib import Path\nfrom bottega.episodes.journal import EpisodeJournal\nEpisodeJournal(Path({str(tmp_path)!r}))"
    with EpisodeJournal(tmp_path) as journal:
        journal.write(judged("a"))
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another process is writing this run" in told.stderr
        assert [event.key for event in read_events(tmp_path)] == ["a"]


def test_listeners_hear_what_is_kept(tmp_path: Path) -> None:
    heard: list[Event] = []
    with EpisodeJournal(tmp_path) as journal:
        journal.listeners.append(heard.append)
        journal.write(judged("a"))
        assert heard == journal.events


def test_a_folder_that_cannot_be_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no run can be kept there"):
        EpisodeJournal(tmp_path / "file" / "run")
    with pytest.raises(UsageError, match="no run there"):
        list(read_events(tmp_path))


def test_a_full_disk_ends_the_run_in_one_line_and_leaves_it_readable(tmp_path: Path) -> None:
    """A real limit on the size of files, which the kernel enforces as it would a full disk."""
    code = f"""
import resource, signal
from pathlib import Path
from bottega.core.errors import BottegaError
from bottega.core.event import RunStarted
from bottega.episodes.attempts import seconds_of
from bottega.episodes.journal import EpisodeJournal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = EpisodeJournal(Path({str(tmp_path)!r}))
journal.write(RunStarted("a", {{}}, {{}}))
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
try:
    journal.write(RunStarted("b" * 2000, {{}}, {{}}))
except BottegaError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot be written (File too large); the run stops here and can be resumed" in told.stdout, told.stderr
    assert [event.command for event in read_events(tmp_path) if isinstance(event, RunStarted)] == ["a"]
