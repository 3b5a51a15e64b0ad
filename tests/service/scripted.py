"""A judge that is scripted, and a server around it on a free port: real HTTP, real SQLite, verdicts by the candidate's own words.

A candidate's text is `DO SECONDS REST`: `judge 0.1 x` gets the outcome `incorrect` after that time, with the text itself as its diagnosis, so
that a test can see whose verdict it is; `crash` raises, `hang` goes on until it is cancelled.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, TaskError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.cancellation import Cancellation
from bottega.judge.remote_client import ServerClient
from bottega.service.dispatcher import Dispatcher, Keeping
from bottega.service.known_tasks import KnownTasks
from bottega.service.limits import TokenLimits
from bottega.service.server import ServedParts, create_app
from bottega.service.serving import PromptConnection, Server
from bottega.service.skill_search import SkillSearch
from bottega.service.store import Store
from bottega.service.tokens import NoTokens, TokenFile, add_token

OWN = TokenLimits(own_tasks=True)
TASK = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


@dataclass
class ScriptedJudge:
    lanes: int = 1
    asked: list[str] = field(default_factory=list)
    closed: bool = False

    def judge(self, task: Task, candidate: Candidate, *, cancellation: Cancellation, **options: Any) -> Verdict:
        self.asked.append(candidate.source)
        do, seconds = [*candidate.source.split(), "0"][:2]
        until = time.monotonic() + (float(seconds) if do != "hang" else 600.0)
        while time.monotonic() < until:
            cancellation.check()
            time.sleep(0.005)
        if do == "crash":
            raise JudgeError("the judge broke")
        if do == "bug":
            raise ZeroDivisionError("of our own")
        told = {"settings": {name: list(v) if isinstance(v, tuple) else v for name, v in options.items()}}
        return Verdict(
            Outcome.INCORRECT, diagnosis=candidate.source, task_id=task.id, candidate_id=candidate.id, fingerprint=told
        )

    def fitness(self, task: Task, *, cancellation: Cancellation, **options: Any) -> dict[str, Any]:
        if "broken" in task.source:
            raise TaskError(f"{task.label}: is broken")
        return {"fit": True, "problems": [], "facts": {"reference_ms": 1.0}, "unavailable": {}}

    def ask(self, entry: str, label: str, *, cancellation: Cancellation, **arguments: Any) -> dict[str, Any]:
        if "broken" in arguments["source"]:
            raise TaskError(f"{label}: is broken")
        return {"entry": entry, **arguments}

    def close(self) -> None:
        self.closed = True


@dataclass
class Running:
    url: str
    dispatcher: Dispatcher
    judge: ScriptedJudge
    tokens: dict[str, str]

    def client(self, token: str = "") -> ServerClient:
        return ServerClient(self.url, self.tokens.get(token), patience=5.0)

    def ask(
        self, method: str, path: str, body: Any = None, token: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any, Any]:
        """Status, headers and JSON of one request, whatever they are."""
        import http.client

        host = self.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=30)
        given = {"Authorization": f"Bearer {self.tokens[token]}"} if token in self.tokens else {}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            given["Content-Type"] = "application/json"
        connection.request(method, path, body=data, headers={**given, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, answer.headers, json.loads(text) if "json" in kind else text.decode()

    def post(self, source: str, token: str = "", wait: float = 20, **more: Any) -> tuple[int, Any]:
        body = {"task": {"source": TASK}, "candidate": {"source": source}, **more}
        status, _, found = self.ask("POST", f"/v1/verdicts?wait={wait}", body, token)
        return status, found


@contextlib.contextmanager
def served(
    folder: Path,
    tokens: dict[str, TokenLimits] | None = None,
    judge: ScriptedJudge | None = None,
    keeping: Keeping | None = None,
    port: int = 0,
    dashboard: Any = None,
) -> Iterator[Running]:
    """A server in a thread of its own. It is stopped cleanly at the end."""
    judge = judge or ScriptedJudge()
    file = folder / "tokens.toml"
    texts = {name: add_token(file, name, limits) for name, limits in (tokens or {}).items()}
    known = TokenFile(file) if tokens else NoTokens()
    dispatcher = Dispatcher(Store(folder / "data"), {"cpu": judge}, known, keeping or Keeping(grace=0.0))
    parts = ServedParts(dispatcher, known, {"cpu": KnownTasks()}, SkillSearch(None, folder / "skills"), dashboard)
    config = uvicorn.Config(
        create_app(parts), port=port, http=PromptConnection, log_level="warning", lifespan="on", timeout_graceful_shutdown=2
    )
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(f"http://127.0.0.1:{port}", dispatcher, judge, texts)
    finally:
        dispatcher.stop_waiting()
        server.should_exit = True
        thread.join(30)
