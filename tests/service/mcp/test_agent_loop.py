"""One real agent loop: a scripted model that reads what the tools say, calls the next one, and ends when a kernel is right and judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from service.mcp.test_mcp_server import ROOT, agent

TASK = "builtin:star_relu"


class ScriptedModel:
    """Decides from the conversation alone, as a model would: tools by name, results by their text."""

    def next(self, said: Sequence[tuple[str, str]]) -> tuple[str, dict[str, Any]] | None:
        last, text = said[-1] if said else ("", "")
        if not said:
            return "search_skills", {"query": "elementwise activation on a cpu", "language": "cpp"}
        if last == "search_skills":
            return "get_skill", {"name": json.loads(text)[0]["name"]}
        if last == "get_skill":
            return "judge_kernel", {"candidate": "class ModelNew(Broken):\n    pass\n", "task": TASK, "quick": True}
        if last == "judge_kernel":
            verdict = json.loads(text)
            return None if verdict["correct"] else ("explain_verdict", {"verdict_id": verdict["verdict_id"]})
        assert last == "explain_verdict" and "Fix the first error" in text
        return "judge_kernel", {"candidate": str(ROOT / "examples/star_relu.py"), "task": TASK, "quick": True}


@pytest.mark.slow
def test_a_scripted_model_comes_to_a_judged_kernel(tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []

    async def loop() -> None:
        model = ScriptedModel()
        async with agent(tmp_path) as client:
            while (call := model.next(said)) is not None:
                result = await client.call_tool(*call)
                assert not result.is_error, result
                text = json.dumps((result.structured_content or {}).get("result")) if call[0] == "search_skills" else ""
                said.append((call[0], text or "\n".join(part.text for part in result.content)))
                assert len(said) < 10

    asyncio.run(asyncio.wait_for(loop(), 280))
    assert [name for name, _ in said] == ["search_skills", "get_skill", "judge_kernel", "explain_verdict", "judge_kernel"]
    assert json.loads(said[-1][1])["speedup"]["eager"]["point"] > 0


@pytest.mark.slow
def test_a_search_with_progress(tmp_path: Path) -> None:
    notes: list[str] = []

    async def noted(progress: float, total: float | None, message: str | None) -> None:
        notes.append(message or "")

    async def searched() -> Any:
        module = "from torch import nn\nimport torch\n\n\nclass Gate(nn.Module):\n    def forward(self, x):\n        return torch.sigmoid(x) * x\n"
        call = {"module": module, "inputs": "torch.randn(64, 4096)", "kernels": 1, "minutes": 1}
        async with agent(tmp_path) as client:
            wrong = await client.call_tool("optimize_module", {**call, "inputs": "torch.randn("})
            assert wrong.is_error and "inputs" in wrong.content[0].text
            return await client.call_tool("optimize_module", call, read_timeout_seconds=270, progress_callback=noted)

    found = asyncio.run(asyncio.wait_for(searched(), 290))
    assert not found.is_error, found
    told = found.structured_content
    assert told["outcome"] in ("faster", "none") and Path(told["folder"], "result.json").is_file()
    assert notes
