"""An MCP server over HTTP around a scripted judge, and the SDK's own client for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.judge.cancellation import Cancellation
from bottega.service.mcp.calls import Calls
from bottega.service.mcp.judges import JudgePool
from bottega.service.mcp.parts import McpParts
from bottega.service.mcp.serving import serve_http
from bottega.skills.default_library import open_library

CANDIDATE = "class ModelNew:\n    pass\n"
CALL = {"candidate": CANDIDATE, "task": "builtin:star_relu"}
OWN = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n\n\ndef get_init_inputs():\n    return []\n"


class Judge:
    """Says `faster`, or waits until it is cancelled."""

    def __init__(self, waits: bool = False) -> None:
        self.waits, self.begun, self.cancelled = waits, threading.Event(), threading.Event()
        self.count = 0
        self.options: dict[str, Any] = {}

    def judge(self, task: Any, candidate: Any, cancellation: Cancellation, **options: Any) -> Verdict:
        self.begun.set()
        self.count += 1
        self.options = options
        if self.waits:
            with cancellation.killing(self.cancelled.set):
                self.cancelled.wait(60)
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, task_id=task.id, candidate_id=candidate.id)

    def close(self) -> None: ...


@asynccontextmanager
async def served(folder: Path, judge: Judge, tokens: Path | None = None, most: int = 8) -> AsyncIterator[str]:
    pool = JudgePool(calls=Calls(most))
    pool._open["cpu", False] = judge
    parts = McpParts(pool, lambda: open_library(folder / "skills", create=True), ("no-such-program",), folder, files=False)
    lines: list[str] = []
    stops: list[Any] = []
    running = asyncio.create_task(serve_http(parts, "127.0.0.1", 0, tokens, lines.append, stops.append))
    while not lines:
        await asyncio.sleep(0.01)
        assert not running.done(), running.exception()
    yield lines[0].split(" at ")[1]
    stops[0]()
    await running


@asynccontextmanager
async def client_of(url: str, token: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client


def error_of(result: Any) -> str:
    assert result.is_error, result
    return str(result.content[0].text)
