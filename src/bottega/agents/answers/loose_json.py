"""JSON out of a model's answer: in prose or a fence, cut off, with typographic quotes or commas too many.

What can be read is read: of a list that breaks off, the whole objects. Each look at the text is bounded in number and length.
"""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST = 200_000
"""Characters of an answer that are looked at."""
MOST_TRIED = 200
"""Places that may begin a value and do not."""

_START = re.compile(r'[\[{](?=\s*["\[{\]}])')
_COMMA = re.compile(r",(?=\s*[\]}])")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "″": '"'})
_DECODER = json.JSONDecoder(strict=False)
"""Not strict: models put line ends into strings as they are."""


def json_values(text: str) -> list[Any]:
    """Objects and lists of an answer, outermost ones, in their order. Repaired readings count only where they leave less unread."""
    text = text[:LONGEST]
    readings = [text, _COMMA.sub("", text), _COMMA.sub("", text.translate(_QUOTES))]
    best: list[Any] = []
    fewest: int | None = None
    for reading in dict.fromkeys(readings):
        values, failures = _decoded(reading)
        if values and (fewest is None or failures < fewest):
            best, fewest = values, failures
    return best


def looks_like_json(text: str) -> bool:
    """Whether an answer means to be JSON, so that an empty list in it is an answer and not a pair of brackets in a sentence."""
    stripped = text.lstrip("` \n\t")
    return stripped.startswith(("[", "{")) or stripped[:5].lower() == "json\n" or "[{" in text or '{"' in text


def _decoded(text: str) -> tuple[list[Any], int]:
    values: list[Any] = []
    at = failures = 0
    while failures < MOST_TRIED and (start := _START.search(text, at)):
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except RecursionError:  # brackets in brackets in brackets: no answer, and slow to find out again
            return values, MOST_TRIED
        except ValueError:
            failures += 1
            at = start.start() + 1
        else:
            values.append(value)
    return values, failures
