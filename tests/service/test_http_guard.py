"""What every request passes first: tokens, names, sizes and time. Real HTTP to a server around a scripted judge."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest
from scripted import OWN, TASK, Running, served

from bottega.service import http_guard, serving
from bottega.service.dashboard.app import dashboard_app


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
    monkeypatch.setattr(http_guard, "BODY_SECONDS", 0.2)
    with served(tmp_path) as running:
        host, port = running.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(
                b"POST /v1/verdicts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
            raw.settimeout(20)
            assert b" 408 " in raw.recv(1000)


def test_without_tokens_only_names_of_this_machine_are_answered(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        assert running.ask("GET", "/v1/devices")[0] == 200
        assert running.ask("GET", "/v1/devices", headers={"Host": "evil.example:80"})[0] == 403, "a name that was pointed here"
        plain = {"Content-Type": "text/plain"}
        body = {"task": {"source": TASK}, "candidate": {"source": "judge 0 x"}}
        assert running.ask("POST", "/v1/verdicts", body, headers=plain)[0] == 415, "what any page may send without asking"
        assert running.post("judge 0 x")[0] == 200


def test_the_dashboard_stands_behind_the_same_gate(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN}, dashboard=dashboard_app([tmp_path])) as running:
        assert running.ask("GET", "/")[0] == running.ask("GET", "/static/dashboard.css")[0] == 401
        status, headers, page = running.ask("GET", "/", token="alice")
        assert status == 200 and headers["Content-Type"].startswith("text/html") and "Runs" in page
        assert running.ask("GET", "/run/nothing", token="alice")[0] == 404
        for method, path in (("GET", "/v1/nothing"), ("PUT", "/v1/verdicts")):
            status, _, told = running.ask(method, path, {} if method == "PUT" else None, "alice")
            assert status == 404 and "/docs" in told["error"], "the interface answers in JSON also beside a dashboard"
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
