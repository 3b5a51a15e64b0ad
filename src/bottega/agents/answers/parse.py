"""The candidate's source out of an answer: the last block that defines `ModelNew`, however the fences went wrong.

A syntax error is no reason to refuse: the judge reports it better. What is refused is an answer without `ModelNew`, and one that
breaks off inside its code.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.fences import CodeBlock, FenceLine, between, blocks, fences
from bottega.compiler.source.text import LONGEST, defines_model

PYTHON = ("python", "py", "python3", "")
MOST_TRIED = 8
FORM = "Answer with the whole Python file in one ```python block that defines class ModelNew."

_DEFINES = re.compile(r"^[ \t]*(?:class[ \t]+ModelNew\b|ModelNew[ \t]*=)", re.M)


def candidate_source(text: str) -> tuple[str, list[CodeBlock]]:
    """The source, and all blocks of the answer: what lies outside them is what the model says about it."""
    if not text:
        raise AnswerError("empty", f"The answer is empty. {FORM}")
    found = blocks(text)
    defining = [block for block in found if _DEFINES.search(block.body)]
    preferred = [block for block in defining if block.info in PYTHON] or defining
    for block in reversed(preferred[-MOST_TRIED:]):
        source = _source(text, block)
        if source is not None:
            return _bounded(source), found
    if preferred:
        raise AnswerError(
            "unfinished", f"The answer breaks off inside the code. Write a shorter file, and close the block. {FORM}"
        )
    named = _last(_DEFINES, text)
    if named is not None:
        if defines_model(text):
            return _bounded(text), [CodeBlock("", text, 0, len(text), closed=True)]
        if wider := _across_fences(text, named):
            return _bounded(wider.body), [wider]
    if found:
        raise AnswerError("no_model", f"The code defines no class ModelNew. {FORM}")
    raise AnswerError("no_code", f"The answer holds no code block. {FORM}")


def _source(text: str, block: CodeBlock) -> str | None:
    """The block's source, repaired where its fences cut it wrongly; None where it breaks off."""
    if defines_model(block.body):
        return block.body
    if not block.closed and (repaired := _without_tail(block.body)):
        return repaired
    named = _last(_DEFINES, text, block.start, block.end)
    wider = _across_fences(text, named) if named is not None else None
    return wider.body if wider else block.body if block.closed else None


def _across_fences(text: str, named: int) -> CodeBlock | None:
    """Python around the place that names ModelNew, between any two fences near it: strings of the code may hold fences too."""
    marks = fences(text)
    openings = [mark for mark in marks if mark.start < named][-MOST_TRIED:]
    closings: Sequence[FenceLine | None] = [mark for mark in marks if mark.start > named][:MOST_TRIED]
    allowance = 2 * LONGEST  # characters to parse: hopeless texts are long
    for opening in reversed(openings):
        for closing in closings or [None]:
            block = between(text, opening, closing)
            allowance -= len(block.body)
            if allowance < 0:
                return None
            if defines_model(block.body):
                return block
    return None


def _last(pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None) -> int | None:
    """Where the last match begins."""
    found = None
    for match in pattern.finditer(text, start, len(text) if end is None else end):
        found = match.start()
    return found


def _without_tail(body: str) -> str | None:
    """Code of an open block up to the prose behind it. Prose begins at the margin; a body that is cut off does not."""
    inline = body.find("```")
    if inline > 0 and defines_model(body[:inline]):
        return body[:inline]
    whole = len(body) <= LONGEST
    lines = body.split("\n") if whole else body[:LONGEST].split("\n")[:-1]
    for _ in range(MOST_TRIED):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            if not 0 < at < len(lines) or lines[at][:1].isspace():
                return None
            lines, whole = lines[:at], True
        except (ValueError, RecursionError, MemoryError):
            return None
        else:
            repaired = "\n".join(lines)
            return repaired if whole and defines_model(repaired) else None
    return None


def _bounded(source: str) -> str:
    if len(source) > LONGEST:
        raise AnswerError("too_long", f"The file has {len(source)} characters; it may have {LONGEST}. {FORM}")
    return source.strip("\n") + "\n"
