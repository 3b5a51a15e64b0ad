"""How long a sandbox ran and waited for a core: counted by the system, from rest to the next stop, and never more than has passed."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from bottega.sandbox import core_time, threads
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.core_time import CoreTime, CoreWatch, thread_times
from bottega.sandbox.threads import Thread


@pytest.mark.parametrize(("text", "times"), [("700 42 3\n", (700, 42)), ("nonsense\n", (0, 0)), ("", (0, 0)), (None, (0, 0))])
def test_what_the_system_does_not_count_is_nothing(tmp_path: Path, text: str | None, times: tuple[int, int]) -> None:
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    assert thread_times(str(tmp_path)) == times


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_real_process_is_counted_and_one_that_is_gone_is_not() -> None:
    found = threads.look([os.getpid(), 2**22 + 1])
    assert found[os.getpid()].ran > 0 and not found[os.getpid()].ended


@pytest.mark.parametrize("name", [b"State:\tT", b") T 1", b"a) Z (b", b"\n) T"])
def test_a_name_is_no_state(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "stat").write_bytes(b"7 (%s) R 1 7 7 0 -1\n" % name)
    assert threads.read_state(str(tmp_path)) == ord("R")
    assert threads.read_state(str(tmp_path / "gone")) is None


def test_a_crowd_waits_as_long_as_one_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 answers the controller; 8 and 9 are threads beside it, and 9 is new."""
    seen = iter([{7: Thread(84, 10, 100, 1), 8: Thread(84, 0, 900, 1)}, {7: Thread(84, 45, 170, 2)}])
    times = iter([{7: (40, 150), 8: (0, 980), 9: (0, 60)}, {7: (45, 5)}])
    own = iter([(0, 1000), (0, 1004), (0, 2000)])
    monkeypatch.setattr(core_time, "_times", lambda processes: next(times))
    monkeypatch.setattr(core_time, "thread_times", lambda: next(own))
    watch = CoreWatch(7)
    watch.at_rest([], next(seen))
    watch.thawed()
    assert watch.look([]) == CoreTime(ran=30, waited=50 + 4, longest_wait=80)
    watch.at_rest([], next(seen))  # what stopping took is in no turn
    assert watch.look([]).longest_wait == 0  # the number of a thread that ended was given to a new one


@pytest.mark.parametrize(
    ("now", "still"),
    [
        ({7: (10, 0), 8: (5, 0)}, True),
        ({7: (10, 0)}, True),  # 8 had ended, and was reaped
        ({7: (10 + core_time.SLACK_NS, 9), 8: (5, 0)}, True),
        ({7: (11 + core_time.SLACK_NS, 0), 8: (5, 0)}, False),
        ({8: (5, 0)}, False),
        ({7: (10, 0), 8: (5, 0), 9: (0, 0)}, False),
        ({7: (9, 0), 8: (5, 0)}, False),
    ],
)
def test_still_means_the_same_threads_and_no_more_time(now, still: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = CoreWatch(7)
    watch.at_rest([], {7: Thread(ord("T"), 10, 0, 1), 8: Thread(ord("Z"), 5, 0, 1)})
    monkeypatch.setattr(core_time, "_times", lambda processes: now)
    assert watch.still([]) is still


def test_a_watch_that_does_not_count_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_time, "_times", lambda processes: pytest.fail("asked"))
    monkeypatch.setattr(threads, "look", lambda processes: pytest.fail("asked"))
    monkeypatch.setattr(core_time, "thread_times", lambda: pytest.fail("asked"))
    watch = CoreWatch(7, counts=False)
    watch.at_rest([7])
    watch.thawed()
    assert watch.look([7]) == CoreTime()
    assert watch.still([7])


@pytest.mark.parametrize(("reply", "rests"), [(b"ok 7 1234 99 5 60 3 77 8", True), (b"busy 7 1234 99 5 60 3 77 8", False)])
def test_the_supervisor_tells_with_the_freeze(reply: bytes, rests: bool) -> None:
    ours, supervisor = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with supervisor:
        control = ProcessControl(ours)
        supervisor.send(b"." + reply)
        assert control.freeze() is rests
        assert control.spent == CoreTime(7, 1234, 99, 5, 60, 3, 77, 8)
        assert control.spent.to_bytes() == b"7 1234 99 5 60 3 77 8"
        control.close()


@pytest.mark.parametrize(
    ("now", "living", "last", "spent"),
    [
        ({7: 600, 8: 250}, [7, 8], 8, (150, 50)),
        ({7: 600}, [7], 8, (400, 100)),  # 8 has ended, and took 200 with it
        ({7: 600, 8: 250}, [7, 8], 9, (400, 100)),  # 9 began after all had been asked to stop, and is gone
        ({7: 600, 8: 250, 9: 70}, [7, 8, 9], 9, (220, 120)),
    ],
)
def test_a_process_that_ends_hides_nothing_of_what_others_ran(
    now: dict[int, int], living: list[int], last: int, spent: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 is the first, and ran for 500 of the 900 until all were stopped. 100 of these have passed since that was asked."""
    ran, numbers, clock = {7: 0, 8: 200}, iter([8, 8, last]), iter([0, 0, 0, 800, 900])
    monkeypatch.setattr(core_time, "process_time", lambda process: ran[process])
    monkeypatch.setattr(core_time.time, "monotonic_ns", lambda: next(clock))
    monkeypatch.setattr(core_time, "thread_times", lambda: (0, 0))
    monkeypatch.setattr(CoreWatch, "_last_number", lambda self: next(numbers))
    monkeypatch.setattr(threads, "folders", lambda processes: [(number, "") for number in living])
    watch = CoreWatch(7)
    watch.stopped(CoreTime(), ran)
    watch.thawed()
    ran |= {7: 550, 8: 250}
    watch.asked()
    ran |= now
    found = watch.stopped(CoreTime(ran=500), now)
    assert (found.others, found.stopping) == spent


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_last_number_is_that_of_the_latest_process() -> None:
    watch = CoreWatch(os.getpid(), own_numbers=True)
    before = watch._last_number()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert 0 < before != watch._last_number()
    assert CoreWatch(os.getpid())._last_number() == 0
