"""Load on `bottega serve`: many clients at once, good, bad and hostile requests mixed, and a `kill -9` of the server in the middle.

Every candidate has a text of its own, with a mark that its verdict must repeat or an id that it must have. At the end every request that the
server has accepted is asked for once more: each must have ended, and each with the verdict of its own source.

    PYTHONPATH=src python3 benchmarks/service_load.py --clients 200 --minutes 10

Most candidates are refused or broken ones, as a verdict with timing takes seconds and one device judges one after the other. So the
latency is mostly that of a queue in which as many wait as there are clients; the first line, by one client at an empty queue, shows what
the service itself takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from bottega.core.errors import BottegaError
from bottega.judge.remote_client import ServerClient
from bottega.service.limits import TokenLimits
from bottega.service.tokens import add_token

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from corpus import Specimen, load_task, specimens  # noqa: E402

TOKENS = 8
LIMITS = TokenLimits(own_tasks=True, requests_per_minute=10_000_000, connections=1000, seconds=120, seconds_per_hour=1e9)
SMALL = TokenLimits(source_kib=4)
WEIGHTS = {"refused": 60, "syntax error": 16, "raises": 10, "wrong": 6, "right": 3, "hostile": 5}
"""How often each kind of candidate is sent."""
BAD, CANCELLED = 0.15, 0.02
"""Shares of requests that no server should take, and of good ones that are cancelled at once."""
ALONE = 50
"""Requests of one client before the others come."""
ENDING_SECONDS = 300.0
"""What the queue has to run empty at the end."""
SLOW = {"memory_hog", "disk_hog", "compiler_bomb", "sleep_in_native_code", "returns_a_giant", "flood_of_output"}
"""Hostile candidates that take more than their share of two cores; the corpus' own tests have them."""


@dataclass(frozen=True)
class Sent:
    kind: str
    source: str
    expect: frozenset[str]
    mark: str = ""
    """What the diagnosis must repeat."""
    settings: dict[str, Any] = field(default_factory=lambda: {"quick": True, "timed": False, "timeout": 20})
    task: str = "relu"

    @property
    def id(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


@dataclass
class Tally:
    """What all clients saw. Lists and counters are appended to by threads; each operation is atomic."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[str, tuple[str, Sent, bool]] = field(default_factory=dict)
    """By id: the token, what was sent, and whether it was cancelled."""
    outcomes: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Anything that must not happen."""


def main(
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 200,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long they send; the queue runs empty after that.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of what is sent.")] = 0,
) -> None:
    hostile = [one for one in specimens("attacks/hostile") if not one.placeholders and one.id not in SLOW]
    with tempfile.TemporaryDirectory() as folder:
        names = [f"client-{number}" for number in range(TOKENS)]
        file = Path(folder) / "tokens.toml"
        tokens = {name: add_token(file, name, LIMITS) for name in names} | {"small": add_token(file, "small", SMALL)}
        server = Server(Path(folder), file)
        alone = alone_seconds(server.url, tokens["client-0"])
        tally, stop = Tally(), threading.Event()
        threads = [
            threading.Thread(
                target=client, args=(server.url, tokens, number, random.Random(seed * 10_000 + number), hostile, tally, stop)
            )
            for number in range(clients)
        ]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        time.sleep(minutes * 30)
        down = server.kill_and_restart(tally)
        time.sleep(max(0.0, minutes * 60 - (time.monotonic() - begun)))
        stop.set()
        sending = time.monotonic() - begun
        for thread in threads:
            thread.join(max(1.0, ENDING_SECONDS - (time.monotonic() - begun - sending)))
        whole = time.monotonic() - begun
        lost = check_all(server.url, tokens, tally)
        memory, metrics = server.memory(), server.requests(tokens["client-0"])
        code = server.stop()
        typer.echo(
            f"one client at an empty queue: a candidate that no process is needed for in {1000 * alone:.0f} ms (median of {ALONE})"
        )
        report(tally, clients, sending, whole, down, lost, memory, metrics)
        if code != 0:
            tally.wrong.append(f"the server ended with {code}")
        for line in tally.wrong[:20]:
            typer.echo(f"WRONG: {line}", err=True)
        raise typer.Exit(1 if tally.wrong or lost else 0)


class Server:
    def __init__(self, folder: Path, tokens: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.words = [
            sys.executable,
            "-m",
            "bottega.app.cli",
            "serve",
            "--folder",
            str(folder / "data"),
            "--port",
            str(self.port),
        ]
        self.words += ["--token-file", str(tokens), "memory_gb=4", "grace=20", "queue=5000", "connections=2000"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(folder / "server.log", "w+")  # noqa: SIM115
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stderr=self.log)
        probe = ServerClient(self.url, patience=120.0)
        probe.ask("GET", "/healthz")

    def kill_and_restart(self, tally: Tally) -> float:
        """How long it was away. What it had started must be gone too."""
        begun, below = time.monotonic(), descendants(self.process.pid)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()
        away = time.monotonic() - begun
        while left := [pid for pid, born in below.items() if birth(pid) == born]:
            if time.monotonic() - begun > 30.0:
                tally.wrong.append(f"{len(left)} of {len(below)} processes outlived the server")
                break
            time.sleep(0.2)
        return away

    def memory(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def requests(self, token: str) -> int:
        """HTTP requests that the server has answered since its last start, and none of them with an error of its own."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        rows = re.findall(
            r'bottega_requests_total\{route="[^"]*",status="(\d+)"\} (\d+)', connection.getresponse().read().decode()
        )
        if broken := [status for status, _ in rows if status.startswith("5")]:
            raise SystemExit(f"the server answered with {broken}")
        return sum(int(count) for _, count in rows)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(90)


def birth(pid: int) -> str:
    """When a process began, which tells it from a later one of the same number; empty where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def descendants(pid: int) -> dict[int, str]:
    """Processes below one, with their births."""
    parents: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.read_text().rpartition(")")[2].split()[1])].append(int(path.parent.name))
        except OSError:
            continue
    found, pending = {}, [pid]
    while pending:
        for child in parents[pending.pop()]:
            found[child] = birth(child)
            pending.append(child)
    return {child: born for child, born in found.items() if born}


def client(
    url: str,
    tokens: dict[str, str],
    number: int,
    drawn: random.Random,
    hostile: list[Specimen],
    tally: Tally,
    stop: threading.Event,
) -> None:
    name = f"client-{number % TOKENS}"
    mine = ServerClient(url, tokens[name])
    count = 0
    while not stop.is_set():
        count += 1
        if drawn.random() < BAD:
            send_badly(url, tokens, drawn, tally)
            continue
        one = drawn_candidate(f"mark{number}x{count}x{drawn.getrandbits(32):08x}", drawn, hostile)
        try:
            ask(mine, name, one, drawn.random() < CANCELLED, tally)
        except BottegaError as error:
            tally.wrong.append(f"{one.kind}: {error}")


def drawn_candidate(mark: str, drawn: random.Random, hostile: list[Specimen]) -> Sent:
    kind = drawn.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if kind == "refused":
        return Sent(kind, f"# {mark}\nclass ModelNew:\n    x = '\0'\n", frozenset({"compile_error"}))
    if kind == "syntax error":
        return Sent(kind, f"{mark} = (\nclass ModelNew: ...\n", frozenset({"compile_error"}))
    if kind == "raises":
        return Sent(kind, f"raise ValueError('{mark}')\n", frozenset({"compile_error", "runtime_error"}), mark)
    if kind == "hostile":
        one = drawn.choice(hostile)
        settings = {"quick": True, "timeout": min(6.0, float(one.options.get("timeout", 6.0)))}
        expect = one.expect | {
            "timeout",
            "runtime_error",
            "rejected",
        }  # with two cores and less time than the corpus gives them
        return Sent(kind, one.path.read_text() + f"\n# {mark}\n", frozenset(expect), settings=settings, task=one.task_name)
    body = "x * 1.5" if kind == "wrong" else "torch.relu(x)"
    expect = {"incorrect"} if kind == "wrong" else {"faster", "same", "slower", "ambiguous", "rejected"}
    text = f"import torch\nfrom torch import nn\n# {mark}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return {body}\n"
    return Sent(kind, text, frozenset(expect | {"timeout"}))


def ask(mine: ServerClient, name: str, one: Sent, cancel: bool, tally: Tally) -> None:
    body = {
        "task": {"source": load_task(one.task).source, "name": one.task},
        "candidate": {"source": one.source},
        "settings": one.settings,
    }
    begun = time.monotonic()
    found = mine.ask("POST", "/v1/verdicts", body)
    id = found["id"]
    tally.accepted[id] = name, one, cancel
    if cancel:
        mine.ask("DELETE", f"/v1/verdicts/{id}")
    while found["state"] in ("queued", "running"):
        found = mine.ask("GET", f"/v1/verdicts/{id}?wait=30", wait=30.0)
    tally.seconds[one.kind].append(time.monotonic() - begun)
    tally.wrong += faults(found, one, cancel)
    tally.outcomes[found.get("verdict", {}).get("outcome", found["state"])] += 1


def alone_seconds(url: str, token: str) -> float:
    """What the service itself takes: from a request to its verdict, where there is nothing to judge and nobody else."""
    mine, tally = ServerClient(url, token), Tally()
    for number in range(ALONE):
        ask(mine, "client-0", Sent("refused", f"# alone {number}\0", frozenset({"compile_error"})), False, tally)
    return statistics.median(tally.seconds["refused"])


def faults(found: dict[str, Any], one: Sent, cancelled: bool) -> list[str]:
    """Why this cannot be what came of that."""
    if found["state"] == "cancelled" and cancelled:
        return []
    if found["state"] != "done":
        return [f"{one.kind} ended as {found['state']}: {found.get('error')}"]
    verdict = found["verdict"]
    wrong = []
    if verdict["candidate_id"] != one.id or one.mark not in verdict["diagnosis"]:
        wrong.append(f"mixed up: {one.kind} {one.id} got the verdict of {verdict['candidate_id']}")
    if verdict["outcome"] not in one.expect:
        wrong.append(
            f"{one.kind} is {verdict['outcome']}, not {sorted(one.expect)}: {verdict['diagnosis'][:200]}\n{one.source[:200]}"
        )
    return wrong


def send_badly(url: str, tokens: dict[str, str], drawn: random.Random, tally: Tally) -> None:
    """One request that must be refused, each in its own way."""
    import http.client

    good = {"task": {"id": "builtin:star_relu"}, "candidate": {"source": "x"}}
    ways: dict[str, tuple[str, str, bytes | None, str, set[int]]] = {
        "malformed JSON": ("POST", "/v1/verdicts", json.dumps(good).encode()[:-7], "client-0", {422}),
        "deep JSON": ("POST", "/v1/verdicts", b"[" * 50_000, "client-1", {400, 422}),
        "unknown field": ("POST", "/v1/verdicts", json.dumps({**good, "speed": 9}).encode(), "client-2", {422}),
        "foreign check": (
            "POST",
            "/v1/verdicts",
            json.dumps({**good, "settings": {"checks": ["os:system"]}}).encode(),
            "client-3",
            {422},
        ),
        "oversized": (
            "POST",
            "/v1/verdicts",
            json.dumps({**good, "candidate": {"source": "x" * 100_000}}).encode(),
            "small",
            {413},
        ),
        "own task": ("POST", "/v1/verdicts", json.dumps({**good, "task": {"source": "x"}}).encode(), "small", {403}),
        "wrong token": ("POST", "/v1/verdicts", json.dumps(good).encode(), "nobody", {401}),
        "no such id": ("GET", f"/v1/verdicts/{drawn.getrandbits(128):032x}", None, "client-4", {404}),
        "somebody else's id": ("DELETE", f"/v1/verdicts/{next(iter(tally.accepted), '0')}", None, "small", {404}),
        "no such route": ("GET", "/v1/../etc/passwd", None, "client-5", {404}),
        "half a request": ("", "", None, "", set()),
    }
    name = drawn.choice(list(ways))
    method, path, body, token, expect = ways[name]
    host, port = url.removeprefix("http://").split(":")
    try:
        if not method:
            with socket.create_connection((host, int(port)), 10) as raw:
                raw.sendall(b"POST /v1/verdicts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n")
                time.sleep(drawn.random())
            tally.bad[name] += 1
            return
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {"Authorization": f"Bearer {tokens.get(token, 'client-0.wrong')}", "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        status = connection.getresponse().status
        connection.close()
    except (OSError, http.client.HTTPException):
        tally.bad["met the killed server"] += 1
        return
    tally.bad[name] += 1
    if status not in expect:
        tally.wrong.append(f"{name} was answered with {status}")


def check_all(url: str, tokens: dict[str, str], tally: Tally) -> int:
    """Ask for everything that was ever accepted. How many are lost."""
    lost = 0
    asking = {name: ServerClient(url, token, patience=60.0) for name, token in tokens.items()}
    for id, (name, one, cancelled) in tally.accepted.items():
        try:
            found = asking[name].ask("GET", f"/v1/verdicts/{id}?wait=60", wait=60.0)
        except BottegaError as error:
            tally.wrong.append(f"lost: {one.kind} {id}: {error}")
            lost += 1
            continue
        if wrong := faults(found, one, cancelled):
            tally.wrong += wrong
            lost += found["state"] != "done"
    return lost


def report(
    tally: Tally, clients: int, sending: float, whole: float, down: float, lost: int, memory: float, requests: int
) -> None:
    verdicts = sum(len(each) for each in tally.seconds.values())
    mixed = sum(line.startswith("mixed up") for line in tally.wrong)
    typer.echo(f"{clients} clients for {sending:.0f} s on {os.cpu_count()} cores; the queue was empty after {whole:.0f} s")
    typer.echo(
        f"{len(tally.accepted)} accepted, {verdicts} ended: {verdicts / whole * 60:.0f} a minute; {lost} lost, {mixed} mixed up"
    )
    typer.echo(f"kill -9 in the middle: back after {down:.1f} s; {requests} HTTP requests since then, none answered with 5xx")
    typer.echo(f"the server took {memory:.0f} MiB at most; outcomes: {dict(tally.outcomes.most_common())}")
    typer.echo(f"refused as they should be: {dict(tally.bad.most_common())}\n")
    typer.echo("| candidate | count | median s | p95 s | max s |\n|---|---|---|---|---|")
    rows: list[tuple[str, list[float]]] = [
        *sorted(tally.seconds.items()),
        ("all", [one for each in tally.seconds.values() for one in each]),
    ]
    for kind, seconds in rows:
        ordered = sorted(seconds)
        p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        typer.echo(f"| {kind} | {len(ordered)} | {statistics.median(ordered):.2f} | {p95:.2f} | {ordered[-1]:.2f} |")


if __name__ == "__main__":
    typer.run(main)
