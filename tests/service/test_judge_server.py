"""The HTTP interface against a scripted judge: real HTTP, real SQLite. Each test says what a client may rely on."""

from __future__ import annotations

import base64
import json
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripted import TASK, Running, ScriptedJudge, served
from waiting import until

from bottega.service import dispatcher, http_guard, serving
from bottega.service.dashboard.app import dashboard_app
from bottega.service.dispatcher import Keeping
from bottega.service.limits import TokenLimits
from bottega.tasks.load import load_task

OWN = TokenLimits(own_tasks=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("server"), {"alice": OWN, "bob": OWN, "guest": TokenLimits(source_kib=1)}) as running:
        yield running


def test_a_verdict_is_given_at_once_or_by_its_id(server: Running) -> None:
    status, found = server.post("judge 0 a", "alice")
    assert status == 200 and found["state"] == "done" and found["verdict"]["diagnosis"] == "judge 0 a"
    status, _, again = server.ask("GET", f"/v1/verdicts/{found['id']}", token="alice")
    assert status == 200 and again["verdict"] == found["verdict"]
    status, found = server.post("judge 0.3 b", "alice", wait=0)
    assert status == 202 and found["state"] in ("queued", "running") and "verdict" not in found
    status, _, found = server.ask("GET", f"/v1/verdicts/{found['id']}?wait=20", token="alice")
    assert status == 200 and found["verdict"]["diagnosis"] == "judge 0.3 b" and found["seconds"] >= 0.3


def test_the_same_request_is_judged_once_and_with_another_label_again(server: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: server.post("judge 0.2 once", "alice")[1], range(8)))
    assert len({each["id"] for each in found}) == 1 and server.judge.asked.count("judge 0.2 once") == 1
    assert all(each["verdict"]["diagnosis"] == "judge 0.2 once" for each in found)
    assert server.post("judge 0.2 once", "alice", settings={"quick": False})[1]["id"] == found[0]["id"], (
        "said or not, it is the same"
    )
    for other in ({"run": "2"}, {"settings": {"quick": True}}):
        assert server.post("judge 0.2 once", "alice", **other)[1]["id"] != found[0]["id"]
    assert server.post("judge 0.2 once", "bob")[1]["id"] != found[0]["id"]


def test_settings_reach_the_judge_as_they_are(server: Running) -> None:
    chosen = {
        "quick": True,
        "baselines": ["best", "eager"],
        "precision": "bf16",
        "timeout": 7,
        "training": False,
        "require_kernel": 0.5,
    }
    _, found = server.post("judge 0 settings", "alice", settings=chosen)
    told = found["verdict"]["fingerprint"]["settings"]
    assert {name: told[name] for name in chosen} == chosen
    assert "checks" not in told and "device" not in told


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"{", 422, "JSON"),
        (b"[" * 100_000, 400, "body"),
        (b"null", 422, "the body: must be a JSON object"),
        (b"7", 422, "the body: must be a JSON object"),
        ({}, 422, "task: is missing; candidate: is missing"),
        ({"task": {}, "candidate": {"source": "x"}}, 422, "either source or id"),
        ({"task": {"source": TASK, "id": "x"}, "candidate": {"source": "x"}}, 422, "either source or id"),
        ({"task": {"source": TASK}, "candidate": {"source": 7}}, 422, "candidate.source: must be a text"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "speed": 9}, 422, "speed: there is no such field; allowed are task, settings,"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"checks": ["os:system"]}}, 422, "allowed are baselines, quick"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"memory_gb": 1}}, 422, "memory_gb"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"timeout": -1}}, 422, "settings.timeout: must be above 0"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"precision": "fp1"}}, 422, "precision"),
        ({"task": {"source": TASK}, "candidate": {"source": "x", "language": "os:system"}}, 422, "language"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "device": "tpu"}, 422, "device"),
        ({"task": {"id": "../../etc/passwd"}, "candidate": {"source": "x"}}, 422, "no task"),
        ({"task": {"id": "builtin:star_rel"}, "candidate": {"source": "x"}}, 422, "star_relu"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused_with_the_reason(server: Running, body: object, status: int, word: str) -> None:
    given, _, found = server.ask("POST", "/v1/verdicts", body, "alice")
    assert given == status and word in found["error"], found


def test_bodies_are_bounded_by_the_token_before_they_are_read(server: Running) -> None:
    body = {"task": {"id": "builtin:star_relu"}, "candidate": {"source": "x" * 1025}}
    status, _, found = server.ask("POST", "/v1/verdicts", body, "guest")
    assert status == 413 and "1 KiB" in found["error"]
    with socket.create_connection(server.url.removeprefix("http://").split(":")) as raw:  # type: ignore[arg-type]
        head = f"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['guest']}\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: 999999999\r\n\r\n".encode())
        assert b" 413 " in raw.recv(1000), "answered before anything of the body was sent"


def test_without_a_valid_token_nothing_is_told(server: Running) -> None:
    _, found = server.post("judge 0 secret", "alice")
    paths = [
        "/v1/devices",
        "/v1/skills?q=x",
        "/metrics",
        f"/v1/verdicts/{found['id']}",
        "/v1/verdicts",
        "/v1/tasks",
        "/nothing",
    ]
    for path in paths:
        for header in ({}, {"Authorization": "Bearer alice.wrong"}, {"Authorization": "Basic !"}, {"Authorization": "x"}):
            status, headers, told = server.ask("GET", path, headers=header)
            assert status == 401 and "token" in told["error"] and headers["WWW-Authenticate"]
    assert server.ask("GET", f"/v1/verdicts/{found['id']}", token="bob")[0] == 404, "others' requests do not exist"
    assert server.ask("DELETE", f"/v1/verdicts/{found['id']}", token="bob")[0] == 404
    for path in ("/healthz", "/docs", "/openapi.json", "/"):
        assert server.ask("GET", path)[0] == 200


def test_a_browser_may_send_the_token_as_a_password(server: Running) -> None:
    basic = base64.b64encode(f"alice:{server.tokens['alice']}".encode()).decode()
    assert server.ask("GET", "/v1/devices", headers={"Authorization": f"Basic {basic}"})[0] == 200


def test_tasks_of_ones_own_need_permission_and_known_ones_do_not(server: Running) -> None:
    status, _, found = server.ask("POST", "/v1/verdicts", {"task": {"source": TASK}, "candidate": {"source": "x"}}, "guest")
    assert status == 403 and "own_tasks" in found["error"]
    known = load_task("builtin:star_relu")
    ids = []
    for task in (
        {"id": "builtin:star_relu"},
        {"id": "star_relu"},
        {"id": known.id},
        {"source": known.source, "name": "builtin:star_relu"},
    ):
        status, _, found = server.ask(
            "POST", "/v1/verdicts?wait=20", {"task": task, "candidate": {"source": "judge 0 k"}}, "guest"
        )
        assert status == 200 and found["verdict"]["task_id"] == known.id, found
        ids.append(found["id"])
    assert len(set(ids)) == 1


def test_a_task_that_was_sent_is_known_by_its_id_to_its_sender(server: Running) -> None:
    body = {"task": {"source": TASK + "mine = 1\n"}}
    status, _, found = server.ask("POST", "/v1/tasks/check?wait=20", body, "alice")
    assert status == 200 and found["report"]["fit"] and found["task_id"]
    by_id = {"task": {"id": found["task_id"]}, "candidate": {"source": "judge 0 by id"}}
    assert server.ask("POST", "/v1/verdicts?wait=20", by_id, "alice")[2]["verdict"]["task_id"] == found["task_id"]
    assert server.ask("POST", "/v1/verdicts?wait=20", by_id, "bob")[0] == 422


def test_a_task_that_cannot_be_run_has_a_report_that_says_so(server: Running) -> None:
    _, _, found = server.ask("POST", "/v1/tasks/check?wait=20", {"task": {"source": "broken", "name": "mine.py"}}, "alice")
    assert found["report"] == {"fit": False, "problems": [{"name": "unusable", "detail": "mine.py: is broken"}], "facts": {}}
    assert server.ask("GET", f"/v1/tasks/check/{found['id']}", token="alice")[2]["report"] == found["report"]
    assert server.ask("GET", f"/v1/verdicts/{found['id']}", token="alice")[0] == 404


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


def test_events_tell_every_state_and_end_with_the_verdict(server: Running) -> None:
    _, found = server.post("judge 0.3 events", "alice", wait=0)
    status, headers, text = server.ask("GET", f"/v1/verdicts/{found['id']}/events", token="alice")
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    told = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
    assert [each["event"] for each in told][-2:] == ["running", "done"]
    assert json.loads(told[-1]["data"])["verdict"]["diagnosis"] == "judge 0.3 events"


def test_skills_devices_metrics_and_docs(server: Running) -> None:
    _, _, found = server.ask("GET", "/v1/skills?q=softmax%20rows&count=3", token="alice")
    assert 1 <= len(found["skills"]) <= 3 and found["skills"][0]["name"]
    assert server.ask("GET", "/v1/skills", token="alice")[0] == 422
    _, _, found = server.ask("GET", "/v1/devices", token="alice")
    assert (
        found["devices"][0]["name"] == "cpu"
        and found["devices"][0]["queued"] == 0
        and found["devices"][0]["fingerprint"]["judge"]
    )
    _, headers, text = server.ask("GET", "/metrics", token="alice")
    assert headers["Content-Type"].startswith("text/plain") and 'bottega_queue_length{device="cpu"} 0' in text
    assert 'bottega_requests_total{route="/v1/verdicts",status="200"}' in text
    _, _, page = server.ask("GET", "/docs")
    assert "/v1/verdicts/{id}/events" in page and "http" not in page.replace("http://127.0.0.1", ""), (
        "nothing is fetched from elsewhere"
    )


def test_the_front_says_what_this_is_and_where_to_read_on(server: Running) -> None:
    status, headers, text = server.ask("GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/plain") and "/docs" in text and "judge" in text


def test_ones_own_verdicts_are_listed_in_pages_the_newest_first(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN, "bob": OWN}) as running:
        ids = [running.post(f"judge 0 {number}", "alice")[1]["id"] for number in range(5)]
        other = running.post("judge 0 other", "bob")[1]["id"]
        running.ask("POST", "/v1/tasks/check?wait=20", {"task": {"source": TASK}}, "alice")
        seen, before = [], ""
        for size in (2, 2, 1):
            _, _, page = running.ask("GET", f"/v1/verdicts?count=2{before}", token="alice")
            assert len(page["verdicts"]) == size
            seen += [row["id"] for row in page["verdicts"]]
            before = f"&before={page['next']}"
        assert seen == ids[::-1] and page["next"] is None
        row = page["verdicts"][0]
        assert row["outcome"] == "incorrect" and row["candidate"] == "candidate" and "verdict" not in row
        assert running.ask("GET", f"/v1/verdicts?before={other}", token="alice")[0] == 404
        status, _, found = running.ask("GET", "/v1/verdicts?count=0", token="alice")
        assert status == 422 and found["error"] == "?count: must be 1 or more"


def test_the_servers_tasks_are_listed_by_names_that_can_be_sent(server: Running) -> None:
    _, _, found = server.ask("GET", "/v1/tasks", token="guest")
    assert len(found["tasks"]) > 20
    for row in (found["tasks"][0], found["tasks"][-1]):
        for name in row.values():
            body = {"task": {"id": name}, "candidate": {"source": "judge 0 listed"}}
            assert server.ask("POST", "/v1/verdicts?wait=20", body, "guest")[0] == 200, row
    assert server.ask("GET", "/v1/tasks?device=tpu", token="guest")[0] == 422


def test_a_text_that_is_no_unicode_is_refused(server: Running) -> None:
    raw = b'{"task": {"id": "builtin:star_relu"}, "candidate": {"source": "judge 0 \\ud800"}}'
    status, _, found = server.ask("POST", "/v1/verdicts?wait=20", raw, "alice")
    assert status == 422 and "candidate.source" in found["error"]


def test_a_slow_sender_holds_nobody_up(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    slow = [socket.create_connection((host, int(port))) for _ in range(50)]
    for raw in slow[:25]:
        raw.sendall(b"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\n")
    for raw in slow[25:]:
        raw.sendall(f"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['alice']}\r\n".encode())
        raw.sendall(b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    assert server.post("judge 0 meanwhile", "bob")[1]["state"] == "done"
    for raw in slow:
        raw.close()


def test_a_body_that_never_comes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_guard.HttpGuard.__init__, "__defaults__", (0.2, http_guard.OPEN_TO_ALL))
    with served(tmp_path) as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(
                b"POST /v1/verdicts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
            raw.settimeout(20)
            assert b" 408 " in raw.recv(1000)


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


def test_without_tokens_only_names_of_this_machine_are_answered(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        assert running.ask("GET", "/v1/devices")[0] == 200
        assert running.ask("GET", "/v1/devices", headers={"Host": "evil.example:80"})[0] == 403, "a name that was pointed here"
        plain = {"Content-Type": "text/plain"}
        body = {"task": {"source": TASK}, "candidate": {"source": "judge 0 x"}}
        assert running.ask("POST", "/v1/verdicts", body, headers=plain)[0] == 415, "what any page may send without asking"
        assert running.post("judge 0 x")[0] == 200


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


def test_the_dashboard_stands_behind_the_same_gate(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN}, dashboard=dashboard_app([tmp_path])) as running:
        assert running.ask("GET", "/")[0] == running.ask("GET", "/static/dashboard.css")[0] == 401
        status, headers, page = running.ask("GET", "/", token="alice")
        assert status == 200 and headers["Content-Type"].startswith("text/html") and "Runs" in page
        assert running.ask("GET", "/run/nothing", token="alice")[0] == 404
        assert running.post("judge 0 beside it", "alice")[1]["state"] == "done"


def test_many_items_are_refused_at_once(server: Running) -> None:
    """With a sentence for each of them nobody else would be answered meanwhile."""
    for settings in ({"baselines": [1] * 50_000}, {f"k{number}": 1 for number in range(20_000)}):
        body = {"task": {"id": "x"}, "candidate": {"source": "x"}, "settings": settings}
        status, _, told = server.ask("POST", "/v1/verdicts", body, "alice")
        assert status == 422 and "more than 64" in told["error"] and len(told["error"]) < 300


def test_a_connection_that_trickles_after_its_answer_is_closed(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEPT_SECONDS", 0.5)
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.1)
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sent:
        sent.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sent.recv(4096).startswith(b"HTTP/1.1 200")
        sent.sendall(b"G")
        while sent.recv(4096):
            pass


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
