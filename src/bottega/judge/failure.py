"""Exceptions of untrusted code as plain, bounded data, whatever their own methods do."""

from __future__ import annotations

import traceback
from typing import Any

from bottega.core.foreign_text import words_of

TEXT_LIMIT = 6000
FIRST_LIMIT = 600
KIND_LIMIT = 80
WHERE_LIMIT = 6
CHAIN_LIMIT = 16
"""Exceptions that were raised one for the other; a hostile chain may be a ring."""
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
    kind = type(error).__name__[:KIND_LIMIT]
    text = _text_of(error)
    where: list[str] = []
    try:
        for frame in traceback.extract_tb(error.__traceback__):
            if (source_path and frame.filename == source_path) or frame.filename.endswith(("candidate.py", "task.py")):
                where.append(f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()[:160]}")
        if isinstance(error, SyntaxError) and error.text:
            where.append(f"line {error.lineno}: {str(error.text)[:2000].strip()[:160]}")
    except BaseException:
        where = []
    compiling = kind in _COMPILE_ERRORS or "Error building extension" in text or "nvcc" in text[:200]
    return {
        "stage": stage,
        "type": kind,
        "text": text,
        "where": where[-WHERE_LIMIT:],
        "compiling": compiling,
        "first": _first_of(error, text),
    }


def _text_of(error: BaseException) -> str:
    """Its words; of very many the beginning, and the part that begins with the first error that a compiler named."""
    try:
        text = str(error)
    except BaseException:
        return "(the exception could not be printed)"
    if len(text) <= TEXT_LIMIT:
        return text
    found = text.find("error:")
    begins = text.rfind("\n", 0, found) + 1
    if found < 0 or begins < TEXT_LIMIT // 2:
        return text[:TEXT_LIMIT]
    head = text[: TEXT_LIMIT // 4]
    return f"{head}\n{text[begins : begins + TEXT_LIMIT - len(head) - 1]}"


def _first_of(error: BaseException, text: str) -> str:
    """The exception that all of this began with, where another one was raised in its place; empty where its words are told already."""
    try:
        first = error
        for _ in range(CHAIN_LIMIT):
            earlier = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
            if earlier is None:
                break
            first = earlier
        words = _text_of(first)[:FIRST_LIMIT]
        return "" if first is error or not words or words in text else f"{type(first).__name__[:KIND_LIMIT]}: {words}"
    except BaseException:
        return ""


def bounded(detail: Any) -> dict[str, Any]:
    """A failure as another process reported it, with nothing in it but what is expected, and no more than is useful."""
    if not isinstance(detail, dict):
        return {}
    where = detail.get("where")
    return {
        "stage": words_of(detail.get("stage"), 40),
        "type": words_of(detail.get("type"), KIND_LIMIT),
        "text": words_of(detail.get("text"), TEXT_LIMIT),
        "where": [words_of(line, 300) for line in where[:WHERE_LIMIT]] if isinstance(where, list) else [],
        "compiling": bool(detail.get("compiling")),
        "first": words_of(detail.get("first"), FIRST_LIMIT + KIND_LIMIT + 2),
    }
