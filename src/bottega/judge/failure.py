"""An exception of foreign code as plain, bounded data, whatever its own methods do."""

from __future__ import annotations

import traceback
from typing import Any

TEXT_LIMIT = 6000
_COMPILE_ERRORS = (
    "CompileError",
    "CompilationError",
    "SyntaxError",
    "IndentationError",
    "TabError",
    "PTXASError",
    "NvrtcError",
)


def describe(stage: str, error: BaseException, source_path: str) -> dict[str, Any]:
    """An exception as bounded plain data, whatever its own methods do."""
    kind = type(error).__name__
    try:
        text = str(error)[:TEXT_LIMIT]
    except BaseException:
        text = "(the exception could not be printed)"
    where: list[str] = []
    try:
        for frame in traceback.extract_tb(error.__traceback__):
            if (source_path and frame.filename == source_path) or frame.filename.endswith(("candidate.py", "task.py")):
                where.append(f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()[:160]}")
    except BaseException:
        where = []
    compiling = kind in _COMPILE_ERRORS or "Error building extension" in text or "nvcc" in text[:200]
    return {"stage": stage, "type": kind[:80], "text": text, "where": where[-6:], "compiling": compiling}


def bounded(detail: Any) -> dict[str, Any]:
    """A failure as another process reported it, with nothing in it but what is expected, and no more than is useful."""
    if not isinstance(detail, dict):
        return {}
    where = detail.get("where")
    return {
        "stage": str(detail.get("stage", ""))[:40],
        "type": str(detail.get("type", ""))[:80],
        "text": str(detail.get("text", ""))[:TEXT_LIMIT],
        "where": [str(line)[:300] for line in where[:6]] if isinstance(where, list) else [],
        "compiling": bool(detail.get("compiling")),
    }
