"""`bottega serve` as a process with the real judge: the command line's verdict, and a `kill -9` in the middle of one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bottega.app.judge_command import read_candidate
from bottega.app.serve_command import app
from bottega.core.errors import UsageError
from bottega.core.files import strict
from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge
from bottega.judge.remote_client import ServerClient
from bottega.service.serving import refuse_open_address
from bottega.tasks.load import load_task

BOTTEGA = [sys.executable, "-m", "bottega.app.cli"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "star_relu.py"
OWN_OF_A_RUN = {
    "stages_s",
    "times_ms",
    "speedup",
    "coverage",
    "diagnosis",
    "outcome",
    "baseline",
    "fastest_baseline",
    "error",
    "notes",
}
"""What differs between two measurements of the same."""


def bottega(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [*BOTTEGA, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def none_outlives_its_test() -> Iterator[None]:
    """Also where the test fails in the middle."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait(60)


class Process:
    def __init__(self, folder: Path, port: int, *more: str) -> None:
        words = [*BOTTEGA, "serve", "--folder", str(folder), "--port", str(port), "memory_gb=6", "grace=1", *more]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        STARTED.append(self.process)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self.process.stderr.read()
        self.url = found[0]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.rotates
@pytest.mark.timeout(280)
def test_the_verdict_is_the_command_lines_and_survives_the_servers_death(judge: Judge, tmp_path: Path) -> None:
    port = free_port()
    tokens = tmp_path / "tokens.toml"
    told = bottega("serve", "--token-file", tokens, "--add-token", "alice", "limits.seconds=200")
    token = told.stdout.strip()
    assert told.returncode == 0 and token.startswith("alice.") and token not in tokens.read_text()
    more = ("--token-file", str(tokens))
    server = Process(tmp_path / "data", port, *more)
    found: list[Verdict] = []
    with Judge.remote(server.url, token, quick=True, timed=False) as elsewhere:
        work = threading.Thread(
            target=lambda: found.append(elsewhere.judge(load_task("builtin:star_relu"), read_candidate(EXAMPLE)))
        )
        work.start()
        while not elsewhere._client.ask("GET", "/v1/devices")["devices"][0]["running"]:
            assert work.is_alive()
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        server = Process(tmp_path / "data", port, *more)
        work.join(150)
    assert found and found[0].correct and found[0].fingerprint["settings"]["timed"] is False

    asked = ("judge", "builtin:star_relu", EXAMPLE, "--quick", "--json", "--server", server.url)
    there = bottega(*asked, BOTTEGA_TOKEN=token)
    assert there.returncode == 0, there.stderr
    remote, local = (
        json.loads(there.stdout),
        strict(judge.judge(load_task("builtin:star_relu"), read_candidate(EXAMPLE), timeout=120).to_json()),
    )
    assert list(remote) == list(local), "the same fields in the same order"
    assert {name: remote[name] for name in remote.keys() - OWN_OF_A_RUN} == {
        name: local[name] for name in local.keys() - OWN_OF_A_RUN
    }
    assert remote["correct"] and Verdict.from_json(remote).to_json() == remote

    refused = bottega(*asked, BOTTEGA_TOKEN="alice.wrong")
    assert refused.returncode == 2 and "token" in refused.stderr
    assert server.end(signal.SIGTERM) == 0


@pytest.mark.rotates
def test_an_address_that_others_reach_needs_tokens(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(UsageError, match="--token-file"):
            refuse_open_address(host, has_tokens=False)
        refuse_open_address(host, has_tokens=True)
    for host in ("127.0.0.1", "::1", "localhost"):
        refuse_open_address(host, has_tokens=False)
    told = bottega("serve", "--host", "0.0.0.0", "--folder", tmp_path)
    assert told.returncode == 2 and "--token-file" in told.stderr
    for words, reason in (
        (["--add-token", "alice"], "--token-file"),
        (["limits.seconds=3"], "--add-token"),
        (["now"], "settings only"),
    ):
        ran = CliRunner().invoke(app, words)
        assert isinstance(ran.exception, UsageError) and reason in str(ran.exception)


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_request_that_was_running_at_two_crashes_is_not_tried_again(tmp_path: Path) -> None:
    port = free_port()
    body = {"task": {"id": "builtin:star_relu"}, "candidate": {"source": "while True: pass\n"}, "settings": {"timeout": 200}}
    waiting = {**body, "candidate": {"source": "class ModelNew(: ...\n"}}
    for _ in range(2):
        server = Process(tmp_path, port)
        client = ServerClient(server.url)
        place = f"/v1/verdicts/{client.ask('POST', '/v1/verdicts', body)['id']}"
        behind = f"/v1/verdicts/{client.ask('POST', '/v1/verdicts', waiting)['id']}"
        while client.ask("GET", f"{place}?wait=1", wait=1.0)["state"] != "running":
            continue
        server.end(signal.SIGKILL)
    server = Process(tmp_path, port)
    try:
        found = client.ask("GET", place)
        assert found["state"] == "failed" and "went down twice" in found["error"]
        while (found := client.ask("GET", f"{behind}?wait=30", wait=30.0))["state"] != "done":
            assert found["state"] in ("queued", "running")
        assert found["verdict"]["outcome"] == "compile_error"
    finally:
        assert server.end(signal.SIGTERM) == 0


@pytest.mark.rotates
def test_a_server_whose_output_nobody_reads_is_stopped_all_the_same(tmp_path: Path) -> None:
    server = Process(tmp_path, 0)
    assert server.process.stderr is not None
    server.process.stderr.close()
    server.process.terminate()
    assert server.process.wait(60) == 0
