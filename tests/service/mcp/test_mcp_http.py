"""The same tools over streamable HTTP, behind the gate: tokens, names of files, cancelling. The judge is scripted where it would only cost time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.service.limits import TokenLimits
from bottega.service.mcp.judges import JudgePool
from bottega.service.mcp.server import McpParts
from bottega.service.mcp.serving import serve_http
from bottega.service.tokens import add_token
from bottega.skills.default_library import open_library

CANDIDATE = "class ModelNew:\n    pass\n"
CALL = {"candidate": CANDIDATE, "task": "builtin:star_relu"}
OWN = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n\n\ndef get_init_inputs():\n    return []\n"


class Judge:
    """Says `faster`, or waits until it is cancelled."""

    def __init__(self, waits: bool = False) -> None:
        self.waits, self.begun, self.cancelled = waits, threading.Event(), threading.Event()

    def judge(self, task: Any, candidate: Any, cancellation: Cancellation, **options: Any) -> Verdict:
        self.begun.set()
        if self.waits:
            with cancellation.killing(self.cancelled.set):
                self.cancelled.wait(60)
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, task_id=task.id, candidate_id=candidate.id)

    def close(self) -> None: ...


@asynccontextmanager
async def served(folder: Path, judge: Judge, tokens: Path | None = None, most: int = 8) -> AsyncIterator[str]:
    pool = JudgePool(most=most)
    pool._open["cpu"] = judge
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


def test_a_verdict_over_http_and_no_file_of_the_server(tmp_path: Path) -> None:
    async def spoken() -> None:
        async with served(tmp_path, Judge()) as url, client_of(url) as client:
            assert len((await client.list_tools()).tools) == 8
            found = await client.call_tool("judge_kernel", CALL)
            assert found.structured_content["outcome"] == "faster"
            assert "cannot be named over HTTP" in error_of(
                await client.call_tool("judge_kernel", {**CALL, "task": "/etc/passwd"})
            )
            assert "cannot be named over HTTP" in error_of(
                await client.call_tool("judge_kernel", {**CALL, "candidate": "/etc/passwd"})
            )
            local = {"module": OWN, "backbone": "local:/etc"}
            assert "backbone" in error_of(await client.call_tool("optimize_module", local))

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_tokens_and_what_they_may_send(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    plain, trusted = (add_token(file, name, TokenLimits(own_tasks=own)) for name, own in (("plain", False), ("trusted", True)))

    async def spoken() -> None:
        async with served(tmp_path, Judge(), file) as url:
            async with httpx.AsyncClient() as http:
                assert (await http.post(url, json={})).status_code == 401
            async with client_of(url, plain) as client:
                assert not (await client.call_tool("judge_kernel", CALL)).is_error
                assert "built-in tasks only" in error_of(await client.call_tool("judge_kernel", {**CALL, "task": OWN}))
            async with client_of(url, trusted) as client:
                assert not (await client.call_tool("judge_kernel", {**CALL, "task": OWN})).is_error

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_an_address_of_others_needs_tokens(tmp_path: Path) -> None:
    parts = McpParts(JudgePool(), lambda: open_library(None), (), tmp_path, files=False)
    with pytest.raises(UsageError, match="token"):
        asyncio.run(serve_http(parts, "0.0.0.0", 0, None, print, lambda stop: None))


def test_a_call_that_is_cancelled_ends_its_verdict_and_one_too_many_is_told_so(tmp_path: Path) -> None:
    judge = Judge(waits=True)

    async def spoken() -> None:
        async with served(tmp_path, judge, most=1) as url, client_of(url) as client:
            call = asyncio.create_task(client.call_tool("judge_kernel", CALL))
            assert await asyncio.to_thread(judge.begun.wait, 60)
            assert "call again" in error_of(await client.call_tool("judge_kernel", CALL))
            call.cancel()
            assert await asyncio.to_thread(judge.cancelled.wait, 60)

    asyncio.run(asyncio.wait_for(spoken(), 120))
    with pytest.raises(Cancelled):
        cancelled = Cancellation()
        cancelled.cancel()
        judge.judge(None, None, cancelled)
