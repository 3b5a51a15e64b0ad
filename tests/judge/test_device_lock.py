"""The lease, between real processes: a timer is alone, a killed holder lets go, and sharers cannot starve a timer."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import until

from bottega.core.errors import JudgeError
from bottega.judge.device_lock import Lease, holders, open_lease

HOLDER = """
import sys
from bottega.judge import device_lock as module
module.MOST_SECONDS_OF_TIMERS = 600  # on a slow machine too
lease = module.Lease(module.open_lease(sys.argv[2]))
print("asking", flush=True)
with getattr(lease, sys.argv[1])():
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
sys.stdin.readline()
"""


class Holder:
    def __init__(self, folder: Path, how: str, device: str):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, how, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder)},
            bufsize=0,
        )
        assert self.said(60) == "asking"

    def said(self, seconds: float) -> str:
        """The next thing it says, or nothing when it says nothing for that long."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return ""
        return self.process.stdout.readline().decode().strip()

    def release(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        assert self.said(60) == "released"


def next_to_hold(*holders: Holder) -> Holder:
    """Whichever of them gets the lease first, however long this machine takes to say so."""
    outputs = {holder.process.stdout: holder for holder in holders}
    ready = select.select(list(outputs), [], [], 60)[0]
    first = outputs[ready[0]]
    assert first.said(0) == "held"
    return first


def announced(timer: Holder) -> None:
    """Wait until the timer is one: from then on it goes before sharers."""
    with (timer.folder / f"bottega-leases-{os.getuid()}" / "cpu.timers").open() as file:
        until(lambda: any(f"process {timer.process.pid} (" in line for line in holders(file.fileno())))
    assert timer.said(0.1) == ""


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(how: str, device: str = "cpu") -> Holder:
        holders.append(Holder(tmp_path, how, device))
        return holders[-1]

    yield start
    for holder in holders:
        holder.process.kill()
        holder.process.communicate()


def test_sharers_share_and_keep_a_timer_out(hold) -> None:
    one, two = hold("shared"), hold("shared")
    assert (one.said(60), two.said(60)) == ("held", "held")
    timer = hold("exclusive")
    announced(timer)
    one.release()
    assert timer.said(0.1) == ""
    two.release()
    assert timer.said(60) == "held"


HUNG = """
import sys, time
from bottega.judge.controller import alarm
from bottega.judge.device_lock import Lease, open_lease
lease = Lease(open_lease("cpu"))
with alarm(float(sys.argv[1]), lease, patience=0.2), lease.shared():
    print("held", flush=True)
    while True:
        time.sleep(0.01)
"""


@pytest.mark.rotates
def test_a_task_that_never_opens_keeps_nobody_from_timing(hold, tmp_path: Path) -> None:
    """Five minutes of a task whose `get_inputs` hangs were five minutes of everybody on the machine."""
    with hung(tmp_path, 600) as task:
        timer = hold("exclusive")
        assert timer.said(60) == "held"
        assert task.poll() is None
    timer.release()
    with hung(tmp_path, 0.5) as task:
        assert task.wait(60) == 1
        assert "takes more than 0.5 s" in (task.stderr.read() if task.stderr else "")


@contextmanager
def hung(folder: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", HUNG, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_timer_is_alone_and_lets_go_when_it_is_killed(hold) -> None:
    timer = hold("exclusive")
    assert timer.said(60) == "held"
    sharer = hold("shared")
    assert sharer.said(0.2) == ""
    timer.process.kill()
    assert sharer.said(60) == "held"


def test_timers_that_wait_together_follow_each_other_before_sharers(hold) -> None:
    early = hold("shared")
    assert early.said(60) == "held"
    timer = hold("exclusive")
    announced(timer)
    late, second = hold("shared"), hold("exclusive")
    announced(second)
    early.release()
    first = next_to_hold(timer, second)
    other = second if first is timer else timer
    assert late.said(0.1) == ""
    first.release()
    assert other.said(60) == "held"
    assert late.said(0.1) == ""
    other.process.kill()
    assert late.said(60) == "held"


def test_timers_cannot_keep_a_sharer_out_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timers that overlap all the time, so that there is always one that waits."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("bottega.judge.device_lock.MOST_SECONDS_OF_TIMERS", 0.3)
    ended, timed = threading.Event(), [0, 0]

    def time_again_and_again(number: int) -> None:
        lease = Lease(open_lease("cpu"))
        while not ended.is_set():
            with lease.exclusive():
                timed[number] += 1
                time.sleep(0.02)

    timers = [threading.Thread(target=time_again_and_again, args=(number,), daemon=True) for number in range(2)]
    sharer = Lease(open_lease("cpu"))
    sharer.enter()
    for timer in timers:
        timer.start()
    sharer.leave()
    until(lambda: min(timed) > 0)
    entering = threading.Thread(target=sharer.enter, daemon=True)
    entering.start()
    entering.join(60)
    got_in = not entering.is_alive()
    sharer.leave()
    ended.set()
    for timer in timers:
        timer.join(60)
    assert got_in


def test_a_waiting_timer_goes_before_sharers_that_come_later(hold) -> None:
    early = hold("shared")
    assert early.said(60) == "held"
    timer = hold("exclusive")
    announced(timer)
    late = hold("shared")
    assert late.said(0.2) == ""  # it would get in beside the first one, and the timer would wait for ever
    early.release()
    assert timer.said(60) == "held"
    assert late.said(0.2) == ""
    timer.release()
    assert late.said(60) == "held"


def test_a_process_that_comes_up_and_a_timer_wait_for_each_other(hold) -> None:
    comer = hold("starting_or_stopping")
    assert comer.said(60) == "held"
    timer = hold("exclusive")
    assert timer.said(0.2) == ""
    comer.release()
    assert timer.said(60) == "held"
    late = hold("starting_or_stopping")
    assert late.said(0.2) == ""
    timer.release()
    assert late.said(60) == "held"


def test_who_shares_can_let_a_timer_in_and_goes_on_afterwards(hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lease = Lease(open_lease("cpu"))
    with lease.shared():
        timer = hold("exclusive")
        assert timer.said(0.2) == ""
        with lease.released():
            assert timer.said(60) == "held"
            timer.release()
        second = hold("exclusive")
        assert second.said(0.2) == ""
    assert second.said(60) == "held"


def test_other_devices_do_not_wait(hold) -> None:
    assert hold("exclusive", "cuda:0").said(60) == "held"
    assert hold("exclusive", "cuda:1").said(60) == "held"
    assert hold("exclusive", "cpu").said(60) == "held"


def test_lease_files_are_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for descriptor in [*open_lease("cuda"), *open_lease("cuda:0")]:
        os.close(descriptor)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert sorted(file.name for file in folder.iterdir() if "start" not in file.name) == [
        "cuda-0.device",
        "cuda-0.entry",
        "cuda-0.timers",
    ]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can open the files can hold their locks for ever."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"bottega-leases-{os.getuid()}").mkdir()
    (tmp_path / f"bottega-leases-{os.getuid()}").chmod(0o777)
    with pytest.raises(JudgeError, match="belongs to somebody else"):
        open_lease("cpu")


def test_a_device_that_is_held_for_ever_is_waited_for_with_a_word(hold, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("bottega.judge.device_lock.WORD_SECONDS", 0.2)
    stranger = hold("exclusive")
    assert stranger.said(60) == "held"
    words = ""

    def wait() -> None:
        with Lease(open_lease("cpu")).shared():
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()

    def told() -> bool:
        nonlocal words
        words += capsys.readouterr().err
        return "waited" in words

    until(told)
    stranger.release()
    waiting.join(60)
    assert not waiting.is_alive()
    assert f"process {stranger.process.pid} (" in words


def test_a_device_that_goes_from_hand_to_hand_is_waited_for_in_silence(hold, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("bottega.judge.device_lock.WORD_SECONDS", 0.4)
    stranger, other = hold("exclusive"), Lease(open_lease("cpu"))
    assert stranger.said(60) == "held"
    waiting = threading.Thread(target=lambda: Lease(open_lease("cpu")).enter())
    waiting.start()
    for _ in range(15):
        time.sleep(0.1)
        other._stamp(8)  # somebody got it
    assert "waited" not in capsys.readouterr().err
    stranger.release()
    waiting.join(60)
    assert not waiting.is_alive()
