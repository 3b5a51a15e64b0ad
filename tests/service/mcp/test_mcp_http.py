"""The same tools over streamable HTTP, behind the gate: names of files, models, cancelling. The judge is scripted where it would only cost time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from service.mcp.http_agent import CALL, OWN, Judge, client_of, error_of, served

from bottega.core.errors import UsageError
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.service.mcp.judges import JudgePool
from bottega.service.mcp.parts import McpParts
from bottega.service.mcp.serving import serve_http
from bottega.skills.default_library import open_library


def test_a_verdict_over_http_and_no_file_of_the_server(tmp_path: Path) -> None:
    async def spoken() -> None:
        judge = Judge()
        async with served(tmp_path, judge) as url, client_of(url) as client:
            assert len((await client.list_tools()).tools) == 8
            found = await client.call_tool("judge_kernel", CALL)
            assert found.structured_content["outcome"] == "faster" and "profile" not in judge.options
            await client.call_tool("profile_kernel", CALL)
            assert judge.options["profile"], "where the time goes is looked for only where it is asked for"
            assert "cannot be named over HTTP" in error_of(
                await client.call_tool("judge_kernel", {**CALL, "task": "/etc/passwd"})
            )
            assert "cannot be named over HTTP" in error_of(
                await client.call_tool("judge_kernel", {**CALL, "candidate": "/etc/passwd"})
            )
            for backbone in ("local:/etc", "server:m@http://169.254.169.254/v1"):
                call = {"module": OWN, "backbone": backbone}
                assert "allows embedded" in error_of(await client.call_tool("optimize_module", call))

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


def test_what_is_cancelled_does_not_wait_for_what_runs(tmp_path: Path) -> None:
    """More calls than the event loop's own threads: ending one of them must not need one of those."""
    judge = Judge(waits=True)
    most = 2 * ((os.cpu_count() or 1) + 4)

    async def spoken() -> None:
        async with served(tmp_path, judge, most=most) as url, client_of(url) as client:
            calls = [asyncio.create_task(client.call_tool("judge_kernel", CALL)) for _ in range(most)]
            while judge.count < most:
                await asyncio.sleep(0.02)
            calls[0].cancel()
            assert await asyncio.to_thread(judge.cancelled.wait, 30)
            found = await asyncio.gather(*calls[1:])
            assert not any(each.is_error for each in found)

    asyncio.run(asyncio.wait_for(spoken(), 120))
