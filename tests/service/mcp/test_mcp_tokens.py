"""Tokens over MCP: a session is its opener's, seconds and places are counted, and a search may use the operator's models only."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from service.mcp.http_agent import CALL, OWN, Judge, client_of, error_of, served

from bottega.core.errors import UsageError
from bottega.service.limits import TokenLimits
from bottega.service.mcp import sessions
from bottega.service.mcp.optimizing import refuse_backbone
from bottega.service.tokens import add_token

OPENING = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
TYPES = {"Accept": "application/json, text/event-stream"}


class SlowJudge(Judge):
    def judge(self, *arguments: Any, **options: Any) -> Any:
        time.sleep(0.3)
        return super().judge(*arguments, **options)


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


def test_a_session_is_of_the_token_that_opened_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OF_ONE", 2)
    file = tmp_path / "tokens.toml"
    alice, bob = (add_token(file, name, TokenLimits()) for name in ("alice", "bob"))

    async def spoken() -> None:
        async with served(tmp_path, Judge(), file) as url, httpx.AsyncClient(timeout=60) as http:

            async def post(token: str, body: Any, session: str = "") -> httpx.Response:
                more = {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-06-18"} if session else {}
                return await http.post(url, json=body, headers={"Authorization": f"Bearer {token}", **TYPES, **more})

            opened = await post(alice, OPENING)
            session = opened.headers["mcp-session-id"]
            assert (await post(alice, LIST, session)).status_code == 200
            assert (await post(bob, LIST, session)).status_code == 404, "as if there were none"
            for method in (http.get, http.delete):
                headers = {"Authorization": f"Bearer {bob}", **TYPES, "Mcp-Session-Id": session}
                assert (await method(url, headers=headers)).status_code == 404
            assert (await post(alice, OPENING)).status_code == 200
            refused = await post(alice, OPENING)
            assert refused.status_code == 429 and "2 sessions" in refused.json()["error"]
            assert (await post(bob, OPENING)).status_code == 200, "another token has its own"
            ended = {"Authorization": f"Bearer {alice}", **TYPES, "Mcp-Session-Id": session}
            assert (await http.delete(url, headers=ended)).status_code == 200
            assert (await post(alice, OPENING)).status_code == 200

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_seconds_of_a_token_are_counted_over_its_sessions_and_the_servers_restarts(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    alice = add_token(file, "alice", TokenLimits(seconds_per_hour=0.2))
    bob = add_token(file, "bob", TokenLimits())

    async def spoken() -> None:
        async with served(tmp_path, SlowJudge(), file) as url:
            async with client_of(url, alice) as client:
                assert not (await client.call_tool("judge_kernel", CALL)).is_error
            async with client_of(url, alice) as client:
                assert "0.2 s of judging an hour" in error_of(await client.call_tool("judge_kernel", CALL))
            async with client_of(url, bob) as client:
                assert not (await client.call_tool("judge_kernel", CALL)).is_error
        async with served(tmp_path, SlowJudge(), file) as url, client_of(url, alice) as client:
            for tool in ("judge_kernel", "profile_kernel"):
                assert "an hour" in error_of(await client.call_tool(tool, CALL))
            assert "an hour" in error_of(await client.call_tool("check_task", {"task": CALL["task"]}))

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_one_call_ends_when_its_time_is_up(tmp_path: Path) -> None:
    file, judge = tmp_path / "tokens.toml", Judge(waits=True)
    alice = add_token(file, "alice", TokenLimits(seconds=0.2, own_tasks=True))

    async def spoken() -> None:
        async with served(tmp_path, judge, file) as url, client_of(url, alice) as client:
            assert "longer than the 0.2 s" in error_of(await client.call_tool("judge_kernel", CALL))
            assert await asyncio.to_thread(judge.cancelled.wait, 60)
            assert "0.2 s" in error_of(await client.call_tool("optimize_module", {"module": OWN}))

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_a_token_cannot_take_all_places(tmp_path: Path) -> None:
    file, judge = tmp_path / "tokens.toml", Judge(waits=True)
    alice, bob = (add_token(file, name, TokenLimits()) for name in ("alice", "bob"))

    async def spoken() -> None:
        async with served(tmp_path, judge, file, most=2) as url, client_of(url, alice) as client, client_of(url, bob) as other:
            call = asyncio.create_task(client.call_tool("judge_kernel", CALL))
            assert await asyncio.to_thread(judge.begun.wait, 60)
            assert "1 calls of this token" in error_of(await client.call_tool("judge_kernel", CALL))
            second = asyncio.create_task(other.call_tool("judge_kernel", CALL))
            judge.cancelled.set()
            assert not (await second).is_error and not (await call).is_error

    asyncio.run(asyncio.wait_for(spoken(), 120))


def test_a_search_over_http_may_use_the_models_of_the_operator_only() -> None:
    here = "http://localhost:8000/v1"
    for allowed in ("embedded", f"server:qwen@{here}", f"server:org/qwen@2@{here}/"):
        refuse_backbone(allowed, [here])
    for wrong in (
        "", "embedded:/etc/passwd", "embedded?device=cuda", "local:/etc", "scripted:/tmp/x.py", "os:system:x", "server:x",
        "server:m@http://169.254.169.254/latest", f"server:m@{here}@http://10.0.0.1", f"server:m@{here}/../x", f"server:m@{here}.evil",
        f" server:m@{here}#x", f"vllm:m@{here}", f"server:@{here}",
    ):  # fmt: skip
        with pytest.raises(UsageError, match="allows embedded"):
            refuse_backbone(wrong, [here])
    with pytest.raises(UsageError, match="allows embedded;"):
        refuse_backbone(f"server:m@{here}", [])
