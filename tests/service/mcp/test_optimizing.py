"""A search as a child process: what it tells names no folder of the server, and one that never began leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bottega.core.errors import BottegaError
from bottega.service.mcp.optimizing import optimize_module

REFUSES = "import sys; print(f'reading {sys.argv[2]}', file=sys.stderr); print('{\"error\": \"' + sys.argv[2] + ': no class\"}'); sys.exit(2)"


def test_a_search_that_is_refused_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    notes: list[str] = []

    async def note(number: int, text: str) -> None:
        notes.append(text)

    with pytest.raises(BottegaError, match="no class") as refused:
        asyncio.run(optimize_module((sys.executable, "-c", REFUSES), tmp_path, "x = 1\n", [], note))
    assert str(refused.value) == "module.py: no class" and notes == ["reading module.py"]
    assert not list(tmp_path.iterdir())
