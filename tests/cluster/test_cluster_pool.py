"""The pool on a real Ray of several machines, with scripted judges: what is asked is answered once, whoever is lost meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_actor import OTHER, TASK, ScriptedActor, candidate
from small_cluster import machine, ray_cluster
from waiting import until

from bottega.cluster import pool
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import JudgeError, UsageError
from bottega.core.verdict import Outcome
from bottega.judge.cancellation import Cancellation, Cancelled


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(num_cpus=2) as cluster:
        yield cluster


def devices(log: list[str] | None = None, words: str = "auto?cores=1") -> ClusterDevices:
    return ClusterDevices(words, (log if log is not None else []).append, ScriptedActor)


def test_a_machine_that_leaves_and_one_that_joins_change_no_answer(cluster: Any) -> None:
    machines, log = [machine(cluster, num_cpus=2)], list[str]()
    with devices(log) as host, host.judge("cpu") as judge:
        assert judge.lanes == 4 and host.chosen(None) == ("cpu",)
        texts = [f"judge 0.2 {number}" for number in range(40)]

        async def ask() -> list[Any]:
            asked = [asyncio.ensure_future(judge.judge_async(TASK, candidate(text))) for text in texts]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            cluster.remove_node(machines.pop(), allow_graceful=False)
            machines.append(machine(cluster, num_cpus=1))
            return await asyncio.gather(*asked)

        assert [verdict.diagnosis for verdict in asyncio.run(ask())] == texts
        assert any("is gone" in line for line in log)
        until(lambda: judge.lanes == 3)
        first, again = (judge.judge(TASK, candidate("judge 0 x")).fingerprint["asked"] for _ in range(2))
        assert again != first, "whoever asks again has it judged again"
        _the_candidate_that_takes_judges_down_is_blamed_and_no_other(judge)
        _what_is_cancelled_ends(judge)
        assert judge.ask("module:function", "label", one=1) == {"entry": "module:function", "one": 1}
        pid = judge.fitness(TASK)["pid"]
        judge.close()
    with pytest.raises(JudgeError, match="closed"):
        judge.judge(TASK, candidate("judge 0 x"))
    until(lambda: not _alive(pid))
    for one in machines:
        cluster.remove_node(one)


def _the_candidate_that_takes_judges_down_is_blamed_and_no_other(judge: Any) -> None:
    async def ask() -> list[Any]:
        texts = ["die 0.1", *(f"judge 0.1 {number}" for number in range(12))]
        return await asyncio.gather(*(judge.judge_async(TASK, candidate(text)) for text in texts))

    guilty, *others = asyncio.run(ask())
    assert guilty.outcome is Outcome.RUNTIME_ERROR and "lost 2 times" in guilty.diagnosis and guilty.notes
    assert {verdict.outcome for verdict in others} == {Outcome.INCORRECT}


def _what_is_cancelled_ends(judge: Any) -> None:
    cancellation = Cancellation()
    threading.Timer(0.5, cancellation.cancel).start()
    with pytest.raises(Cancelled):
        judge.judge(OTHER, candidate("hang"), cancellation=cancellation)

    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(judge.judge_async(OTHER, candidate("hang")), 0.5)

    asyncio.run(give_up())
    until(lambda: all(judge.judge(TASK, candidate("judge 0 x")) for _ in range(3)))


@pytest.mark.slow
def test_killed_judges_are_replaced(cluster: Any) -> None:
    with devices() as host, host.judge("cpu") as judge:
        for _ in range(3):
            told = [each["pid"] for each in host._pool("cpu").judges]
            asked = [judge._sent(judge._verdict(TASK, candidate(f"judge 1 {number}"), {})) for number in range(4)]
            os.kill(told[0], signal.SIGKILL)
            assert [request.done.result(60).diagnosis for request in asked] == [f"judge 1 {number}" for number in range(4)]
            until(lambda: len(host._pool("cpu").judges) == 2)


@pytest.mark.slow
def test_judges_that_died_while_they_were_idle_are_nobodys_fault(cluster: Any) -> None:
    """Nobody has heard of it before something is asked of them: one candidate would meet both, and be blamed without having run."""
    log: list[str] = []
    with devices(log) as host, host.judge("cpu") as judge:
        told = [each["pid"] for each in host._pool("cpu").judges]
        assert len(told) == 2
        for pid in told:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(_alive, told)))
        assert judge.judge(TASK, candidate("judge 0 x")).diagnosis == "judge 0 x"
        assert any("is gone" in line for line in log)


@pytest.mark.slow
def test_what_is_cancelled_before_its_judge_has_taken_it_ends(cluster: Any) -> None:
    with devices() as host, host.judge("cpu") as judge:
        pid = judge.fitness(TASK)["pid"]
        os.kill(pid, signal.SIGSTOP)
        asked = [judge._sent(judge._verdict(TASK, candidate("judge 0 x"), {})) for _ in range(2)]
        until(lambda: any(request.done.done() for request in asked))
        waiting = next(request for request in asked if not request.done.done())
        host._pool("cpu").cancel(waiting)
        with pytest.raises(Cancelled, match="before it began"):
            waiting.done.result(30)
        os.kill(pid, signal.SIGCONT)
        until(lambda: all(judge.judge(TASK, candidate("judge 0 x")) for _ in range(3)))


@pytest.mark.slow
def test_a_judge_that_is_stuck_is_given_up(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is there and its machine is well: Ray sees nothing, and its verdict never comes."""
    monkeypatch.setattr(pool, "PING_SECONDS", 0.5)
    monkeypatch.setattr(pool, "SILENT_SECONDS", 5.0)
    log: list[str] = []
    with devices(log) as host, host.judge("cpu") as judge:
        stuck = judge.fitness(TASK)["pid"]
        asked = [judge._sent(judge._verdict(TASK, candidate(f"judge 2 {number}"), {})) for number in range(4)]
        os.kill(stuck, signal.SIGSTOP)
        assert [request.done.result(90).diagnosis for request in asked] == [f"judge 2 {number}" for number in range(4)]
        assert any("does not answer" in line for line in log)
        until(lambda: not _alive(stuck))


@pytest.mark.slow
def test_a_judge_that_is_stuck_while_it_is_idle_keeps_nobody_waiting(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SILENT_SECONDS", 5.0)
    with devices() as host, host.judge("cpu") as judge:
        stuck = judge.fitness(TASK)["pid"]
        os.kill(stuck, signal.SIGSTOP)
        asked: list[Any] = []
        asking = threading.Thread(target=lambda: asked.append(host.judge("cpu", workers=1)), daemon=True)
        asking.start()
        asking.join(60)
        assert asked, "whoever asks for another number of workers waits without end"
        assert asked[0].judge(TASK, candidate("judge 0 x")).diagnosis == "judge 0 x"
        until(lambda: not _alive(stuck))


@pytest.mark.slow
def test_devices_of_another_make_are_another_pool(cluster: Any) -> None:
    """GPUs that are not there: Ray counts what it is told, and the scripted judge touches none."""

    def gpus(make: str, count: int) -> Any:
        return machine(cluster, num_cpus=0, num_gpus=count, env_vars={"BOTTEGA_TEST_MAKE": f"NVIDIA {make}, 1, 80 GiB"})

    machines, log = [gpus("H100", 2), gpus("A100", 1)], list[str]()
    with devices() as host, pytest.raises(UsageError, match=r"2 × NVIDIA H100.*make=NAME|1 × NVIDIA A100.*make=NAME"):
        host.fingerprint("cuda")
    with devices(log, "auto?make=h100") as host, host.judge("cuda", workers=1) as judge:
        assert host.chosen("all") == ("cuda",) and host.fingerprint("cuda")["gpu"].startswith("NVIDIA H100")
        assert {told["device"] for told in host._pool("cuda").judges} == {"cuda:0", "cuda:1"}
        assert any("A100" in line and "left out" in line for line in log)
        machines.append(gpus("A100", 1))
        until(lambda: sum("left out" in line for line in log) == 2)
        machines.append(gpus("H100", 1))
        until(lambda: judge.workers == 3)
    with devices() as host, pytest.raises(UsageError, match="asked for cpu or cuda"):
        host.judge("cuda:1")
    for one in machines:
        cluster.remove_node(one)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
