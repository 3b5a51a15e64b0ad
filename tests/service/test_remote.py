"""`Judge.remote`: the judge's methods over HTTP, with what is lost on the way sent again; against a scripted judge."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import TASK, Running, ScriptedJudge, served
from waiting import until

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, TaskError, UsageError
from bottega.core.task import Task
from bottega.judge import remote_client
from bottega.judge.fingerprint import fingerprint
from bottega.judge.judge import Judge
from bottega.judge.remote import RemoteDevices, RemoteJudge
from bottega.judge.remote_client import ServerClient, token_from_environment
from bottega.service.limits import TokenLimits

MINE = Task(TASK, "mine.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("remote"), {"alice": TokenLimits(own_tasks=True), "guest": TokenLimits()}) as running:
        yield running


@pytest.fixture(scope="module")
def judge(server: Running) -> Iterator[RemoteJudge]:
    with Judge.remote(server.url, server.tokens["alice"], quick=True) as made:
        yield made


def candidate(text: str) -> Candidate:
    return Candidate(text, "cpp", "candidate")


def test_a_verdict_comes_back_whole(judge: RemoteJudge, server: Running) -> None:
    verdict = judge.judge(MINE, candidate("judge 0 one"), timeout=9.0)
    assert (
        verdict.diagnosis == "judge 0 one"
        and verdict.candidate_id == candidate("judge 0 one").id
        and verdict.task_id == MINE.id
    )
    assert verdict.fingerprint["settings"]["quick"] is True and verdict.fingerprint["settings"]["timeout"] == 9.0
    assert judge.device == "cpu" and judge.settings.quick and judge.lanes >= 1
    assert [one.diagnosis for one in judge.judge_many(MINE, [candidate("judge 0 a"), candidate("judge 0 b")])] == [
        "judge 0 a",
        "judge 0 b",
    ]


def test_a_server_trusts_nobodys_code(judge: RemoteJudge, server: Running) -> None:
    verdict = judge.judge(MINE, candidate("judge 0 trusted"), own_code=True)
    assert verdict.diagnosis == "judge 0 trusted" and "own_code" not in verdict.fingerprint["settings"]
    with pytest.raises(UsageError, match="own_code: the server's own setting"):
        Judge.remote(server.url, server.tokens["alice"], own_code=True)


def test_many_at_once_are_not_mixed_up(judge: RemoteJudge) -> None:
    texts = [f"judge 0.01 number {number}" for number in range(24)]

    async def all_of_them() -> list[str]:
        return [one.diagnosis for one in await asyncio.gather(*(judge.judge_async(MINE, candidate(text)) for text in texts))]

    assert asyncio.run(all_of_them()) == texts


def test_fitness_is_a_report_or_an_error(judge: RemoteJudge) -> None:
    assert judge.fitness(MINE)["facts"] == {"reference_ms": 1.0}
    with pytest.raises(TaskError, match=r"other\.py: is broken"):
        judge.fitness(Task("broken", "other.py"))


def test_errors_say_whose_they_are(judge: RemoteJudge, server: Running) -> None:
    with pytest.raises(JudgeError, match="the judge broke"):
        judge.judge(MINE, candidate("crash 0 x"))
    with pytest.raises(UsageError, match="BOTTEGA_TOKEN"):
        Judge.remote(server.url, "alice.wrong")
    with pytest.raises(UsageError, match="cpu, not on cuda"):
        Judge.remote(server.url, server.tokens["alice"], "cuda")
    with pytest.raises(UsageError, match="own_tasks"), Judge.remote(server.url, server.tokens["guest"]) as guest:
        guest.judge(MINE, candidate("judge 0 x"))
    with pytest.raises(UsageError, match="memory_gb"):
        Judge.remote(server.url, server.tokens["alice"], memory_gb=3)
    with pytest.raises(UsageError, match="checks"):
        judge.judge(MINE, candidate("x"), checks=("a:b",))
    for address in ("ftp://x", "http://", "http://u:p@x", "http://x?y=1", "http://x:port"):
        with pytest.raises(UsageError, match="address"):
            ServerClient(address)


def test_fresh_verdicts_are_measured_anew(judge: RemoteJudge, server: Running) -> None:
    for _ in range(2):
        judge.judge(MINE, candidate("judge 0 stands"))
    with Judge.remote(server.url, server.tokens["alice"], fresh=True) as fresh:
        for _ in range(2):
            fresh.judge(MINE, candidate("judge 0 anew"))
    assert server.judge.asked.count("judge 0 stands") == 1 and server.judge.asked.count("judge 0 anew") == 2


def test_what_the_devices_are_is_the_servers_word(server: Running) -> None:
    devices = RemoteDevices(server.url, server.tokens["alice"])
    assert devices.fingerprint("cpu") == fingerprint("cpu") and devices.facts("cpu").cores >= 1
    assert devices.chosen(None) == devices.chosen("all") == devices.chosen("cpu") == ("cpu",)


def test_closing_ends_waiting_calls_and_cancels_them_there(server: Running) -> None:
    judge = Judge.remote(server.url, server.tokens["alice"])
    failed: list[str] = []

    def ask() -> None:
        try:
            judge.judge(MINE, candidate("hang 0 close"))
        except JudgeError as error:
            failed.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: "hang 0 close" in server.judge.asked)
    until(lambda: judge._under_way)
    judge.close()
    until(lambda: not server.dispatcher._running)
    thread.join(30)
    assert failed


def test_a_server_that_comes_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is the same, the process another: as after a restart."""
    monkeypatch.setattr(remote_client, "FIRST_PAUSE", 0.05)
    with served(tmp_path) as first:
        judge = Judge.remote(first.url)
        judge.judge(MINE, candidate("judge 0 before"))
    port = int(first.url.rpartition(":")[2])
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(judge.judge(MINE, candidate("judge 0 after")).diagnosis))
    thread.start()
    again = ScriptedJudge()
    with served(tmp_path, judge=again, port=port):
        thread.join(60)
    assert found == ["judge 0 after"] and again.asked == ["judge 0 after"]
    judge.close()


def test_a_server_that_is_not_there_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "FIRST_PAUSE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setattr(remote_client, "FIRST_PATIENCE", 0.1)
    with pytest.raises(JudgeError, match=r"nothing answers there .*is that its address\?"):
        ServerClient(f"127.0.0.1:{port}").ask("GET", "/v1/devices")  # not for ten minutes: it may never have been one
    known = ServerClient(f"127.0.0.1:{port}", patience=0.2)
    monkeypatch.setattr(known, "_answered", True)
    with pytest.raises(JudgeError, match="does not answer since 0"):
        known.ask("GET", "/v1/devices")


def test_something_else_at_the_address_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection = listening.accept()[0]
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UsageError, match="bottega serve"):
            Judge.remote(f"http://127.0.0.1:{listening.getsockname()[1]}", "x")
        thread.join(20)


def test_the_token_is_read_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOTTEGA_TOKEN", raising=False)
    monkeypatch.delenv("BOTTEGA_TOKEN_FILE", raising=False)
    assert token_from_environment() is None
    (tmp_path / "token").write_text("of a file\n")
    monkeypatch.setenv("BOTTEGA_TOKEN_FILE", str(tmp_path / "token"))
    assert token_from_environment() == "of a file"
    monkeypatch.setenv("BOTTEGA_TOKEN", "itself")
    assert token_from_environment() == "itself"
    monkeypatch.delenv("BOTTEGA_TOKEN")
    monkeypatch.setenv("BOTTEGA_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be read"):
        token_from_environment()
