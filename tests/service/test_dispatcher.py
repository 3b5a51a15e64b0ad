"""What becomes of requests: turns, limits, cancelling, stops, a full disk. Real HTTP to a server around a scripted judge."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripted import OWN, TASK, Running, ScriptedJudge, served
from waiting import until

from bottega.service import dispatcher
from bottega.service.dispatcher import Keeping
from bottega.service.limits import TokenLimits


def test_a_judge_that_breaks_is_told_and_the_request_may_be_sent_again(server: Running) -> None:
    for word, reason in (("crash", "the judge broke"), ("bug", "please report it")):
        _, found = server.post(f"{word} 0 x", "alice")
        assert found["state"] == "failed" and reason in found["error"]
        server.post(f"{word} 0 x", "alice")
        assert server.judge.asked.count(f"{word} 0 x") == 2


def test_cancelling_frees_the_lane_also_of_one_that_runs(server: Running) -> None:
    _, running = server.post("hang 0 a", "alice", wait=0)
    until(lambda: "hang 0 a" in server.judge.asked)
    _, waits = server.post("hang 0 b", "alice", wait=0)
    assert waits["state"] == "queued" and waits["ahead"] == 0
    for one in (waits, running):
        status, _, found = server.ask("DELETE", f"/v1/verdicts/{one['id']}", token="alice")
        assert status == 200 and found["state"] == "cancelled"
    assert server.post("judge 0 next", "bob")[1]["state"] == "done"
    assert "hang 0 b" not in server.judge.asked


def test_too_much_is_told_with_the_time_to_come_back(tmp_path: Path) -> None:
    limits = {
        "often": TokenLimits(own_tasks=True, requests_per_minute=2),
        "many": TokenLimits(own_tasks=True, queue_share=0.5),
        "wide": TokenLimits(own_tasks=True, connections=1),
        "long": TokenLimits(own_tasks=True, seconds=0.3),
        "spent": TokenLimits(own_tasks=True, seconds_per_hour=0.1),
    }
    with served(tmp_path, limits, keeping=Keeping(queue=4, grace=0.0)) as running:
        assert [running.post("judge 0 x", "often")[0] for _ in range(3)] == [200, 200, 429]
        status, headers, found = running.ask("GET", "/v1/devices", token="often")
        assert status == 429 and 1 <= int(headers["Retry-After"]) <= 61 and "2 requests a minute" in found["error"]
        _, found = running.post("hang 0 x", "wide", wait=0)
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as stream:
            head = f"GET /v1/verdicts/{found['id']}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.tokens['wide']}\r\n\r\n"
            stream.sendall(head.encode())
            assert b" 200 " in stream.recv(100)
            assert running.ask("GET", "/v1/devices", token="wide")[0] == 429
        until(lambda: running.ask("DELETE", f"/v1/verdicts/{found['id']}", token="wide")[0] == 200)
        _, found = running.post("hang 0 x", "long")
        assert found["state"] == "failed" and "0.3 s" in found["error"]
        assert running.post("judge 0.2 x", "spent")[0] == 200
        assert running.post("judge 0.2 y", "spent")[0] == 429
        running.post("hang 0 first", "many", wait=0)
        until(lambda: "hang 0 first" in running.judge.asked)
        assert [running.post(f"judge 0 {number}", "many", wait=0)[0] for number in range(3)] == [202, 202, 429]


def test_nobody_starves_behind_a_token_with_many_requests(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN, "bob": OWN}) as running:
        _, first = running.post("hang 0 first", "alice", wait=0)
        until(lambda: running.judge.asked)
        for number in range(20):
            running.post(f"judge 0.01 a{number}", "alice", wait=0)
        running.post("judge 0 b", "bob", wait=0)
        running.post("judge 0 urgent", "alice", wait=0, priority=5)
        running.ask("DELETE", f"/v1/verdicts/{first['id']}", token="alice")
        assert running.post("judge 0 b", "bob")[1]["state"] == "done"
        assert running.judge.asked[:3] == ["hang 0 first", "judge 0 urgent", "judge 0 b"]


def test_a_clean_stop_keeps_what_waits_and_what_ran(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        running.post("hang 0 ran", wait=0)
        until(lambda: running.judge.asked)
        running.post("judge 0 waited", wait=0)
    assert running.judge.closed
    judge = ScriptedJudge()
    with served(tmp_path, judge=judge) as running:
        until(lambda: "hang 0 ran" in judge.asked)
        _, found = running.post("hang 0 ran", wait=0)
        assert found["state"] == "running"
        running.ask("DELETE", f"/v1/verdicts/{found['id']}")
        assert running.post("judge 0 waited")[1]["verdict"]["diagnosis"] == "judge 0 waited"
        assert judge.asked == ["hang 0 ran", "judge 0 waited"]


def test_a_waiting_client_is_answered_when_the_server_stops(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with served(tmp_path) as running:
            waits = pool.submit(running.post, "hang 0 x", wait=100)
            until(lambda: running.judge.asked)
            time.sleep(0.05)
        status, found = waits.result(20)
        assert status == 202 and found["state"] == "running"


def test_a_full_disk_costs_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "STORE_SECONDS", 0.02)
    with served(tmp_path) as running:
        store, full = running.dispatcher.store, sqlite3.OperationalError("database or disk is full")
        for name in ("accept", "start", "finish"):
            kept, failures = getattr(store, name), iter((full, full))

            def failing(*arguments: Any, kept: Any = kept, failures: Iterator[Exception] = failures, **more: Any) -> Any:
                if (failure := next(failures, None)) is not None:
                    raise failure
                return kept(*arguments, **more)

            monkeypatch.setattr(store, name, failing)
        status, headers, found = running.ask(
            "POST", "/v1/verdicts", {"task": {"source": TASK}, "candidate": {"source": "judge 0 x"}}
        )
        assert status == 503 and headers["Retry-After"] == "10" and "disk" not in found["error"]
        assert running.post("judge 0 x")[0] == 503
        assert running.post("judge 0 x")[1]["verdict"]["diagnosis"] == "judge 0 x"
        assert running.judge.asked == ["judge 0 x"]


def test_a_judge_that_has_more_lanes_later_is_asked_more(tmp_path: Path) -> None:
    """As a cluster has that a machine joins; and fewer when one leaves."""
    with served(tmp_path) as server:
        for number in range(3):
            server.post(f"hang 0 {number}", wait=0)
        until(lambda: server.dispatcher.running("cpu") == 1)
        server.judge.lanes = 3
        until(lambda: server.dispatcher.running("cpu") == 3)
        server.judge.lanes = 1
        for id in [record.record.id for record in server.dispatcher._running.values()]:
            server.ask("DELETE", f"/v1/verdicts/{id}")
        for number in range(3):
            server.post(f"judge 0.2 {number}", wait=0)
        until(lambda: len(server.judge.asked) == 4)
        assert server.dispatcher.running("cpu") <= 1
