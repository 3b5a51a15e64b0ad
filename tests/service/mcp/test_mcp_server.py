"""The MCP server over stdio and HTTP, spoken to by the SDK's own client; one real verdict, the rest needs none."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from bottega.core.verdict import Outcome, Speedup, Verdict, Violation

TOOLS = {
    "judge_kernel", "profile_kernel", "explain_verdict", "check_task", "search_skills", "get_skill", "optimize_module", "list_devices",
}  # fmt: skip
TASK = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def agent(folder: Path, *options: str) -> AsyncIterator[Client]:
    """A client of a `bottega mcp` that was started for it, as agents do."""
    environment = {"PYTHONPATH": str(ROOT / "src"), "BOTTEGA_LIBRARY": str(folder / "skills"), "PATH": "/usr/bin:/bin"}
    words = ["-m", "bottega.app.cli", "mcp", "--folder", str(folder), *options]
    started = StdioServerParameters(command=sys.executable, args=words, env=environment, cwd=str(folder))
    async with Client(stdio_client(started)) as client:
        yield client


def told(result: Any) -> Any:
    text = "\n".join(part.text for part in result.content)
    assert not result.is_error, text
    return result.structured_content.get("result", result.structured_content) if result.structured_content else text


def error_of(result: Any) -> str:
    assert result.is_error, result
    return str(result.content[0].text)


@pytest.mark.rotates
def test_an_agent_over_stdio(tmp_path: Path) -> None:
    rejected = Verdict(Outcome.REJECTED, violations=(Violation("decoy_kernel", "its kernels do 0 % of the work"),))

    async def spoken() -> None:
        async with agent(tmp_path) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == TOOLS
            assert all(tool.description and tool.input_schema["properties"] is not None for tool in tools)

            devices = told(await client.call_tool("list_devices"))
            assert devices["devices"][0]["device"] == "cpu" and devices["devices"][0]["cores"] > 0

            cards = told(await client.call_tool("search_skills", {"query": "softmax over rows", "count": 3}))
            assert 1 <= len(cards) <= 3 and "measured_uplift" in cards[0]
            card = told(await client.call_tool("get_skill", {"name": cards[0]["name"]}))
            assert "## When it is sound" in card
            assert "no_such" in error_of(await client.call_tool("get_skill", {"name": "no_such"}))

            words = told(await client.call_tool("explain_verdict", {"verdict": json.dumps(rejected.to_json())}))
            assert "Call the kernels that the file defines" in words and "Next:" in words
            for odd in (
                "[[[",
                "9" * 5000,
                '{"outcome": "faster", "speedup": {"eager": {"point": 1, "low": "x", "high": null}}}',
                '{"outcome": "rejected", "violations": [{"name": 1, "detail": {}}], "diagnosis": 7}',
            ):
                assert "no verdict" in error_of(await client.call_tool("explain_verdict", {"verdict": odd}))
            assert "judge the kernel again" in error_of(await client.call_tool("explain_verdict", {"verdict_id": "x"}))

            assert "get_inputs" in error_of(await client.call_tool("check_task", {"task": TASK}))
            call = {"candidate": "/no/such/file.py", "task": "builtin:star_relu"}
            assert "neither a Python text nor a file" in error_of(await client.call_tool("judge_kernel", call))
            call = {"candidate": "x = 1\n", "task": "builtin:star_relu", "device": "cuda:7"}
            assert "judges on cpu" in error_of(await client.call_tool("judge_kernel", call))
            large = {"candidate": "#" * (1 << 20) + "#\n", "task": "builtin:star_relu"}
            assert "1048576" in error_of(await client.call_tool("judge_kernel", large))
            assert "precision" in error_of(await client.call_tool("judge_kernel", {**call, "precision": "fp4"}))

    asyncio.run(asyncio.wait_for(spoken(), 240))


@pytest.mark.rotates
def test_a_verdict_and_its_explanation(tmp_path: Path) -> None:
    """Of a candidate that cannot be imported: a real verdict, and a quick one."""
    notes: list[str] = []

    async def noted(progress: float, total: float | None, message: str | None) -> None:
        notes.append(message or "")

    async def spoken() -> None:
        candidate = "print('on standard output')\nclass ModelNew(Nothing):\n    pass\n"
        async with agent(tmp_path) as client:
            call = {"candidate": candidate, "task": "builtin:star_relu", "quick": True}
            verdict = told(await client.call_tool("judge_kernel", call, progress_callback=noted))
            assert verdict["outcome"] == "compile_error" and "Nothing" in verdict["diagnosis"]
            words = told(await client.call_tool("explain_verdict", {"verdict_id": verdict["verdict_id"]}))
            assert words.startswith("compile_error:") and "Nothing" in words

    asyncio.run(asyncio.wait_for(spoken(), 240))
    assert notes == ["judging", "compile_error"]


def test_an_explanation_of_speed_says_what_is_left() -> None:
    from bottega.service.mcp.explain import explanation, profile

    verdict = Verdict(
        Outcome.FASTER, correct=True, baseline="eager", speedup={"eager": Speedup(2.0, 1.9, 2.1)},
        times_ms={"candidate": 1.0, "eager": 2.0, "floor": 0.25},
    )  # fmt: skip
    assert "0.25 ms" in explanation(verdict) and "1.900 to 2.100" in explanation(verdict)
    assert profile(verdict)["share_of_roofline"] == 0.25
    unbounded = replace(verdict, speedup={"eager": Speedup(50.0, 40.0, 102.02)})
    assert "40.000, no upper end" in explanation(unbounded) and "102" not in explanation(unbounded)
