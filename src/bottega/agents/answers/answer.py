"""An answer of a model as text: what is left of it without reasoning, and the one error for answers that cannot be used."""

from __future__ import annotations

import re
from typing import Literal

from bottega.core.errors import BottegaError

Kind = Literal["empty", "unfinished", "no_code", "no_model", "no_json", "wrong_form", "too_long"]

_TAG = re.compile(r"^[ \t]*<(?:think|thinking|reasoning|thought)>|(</(?:think|thinking|reasoning|thought)>)", re.I | re.M)
"""An opening counts only at the beginning of a line: code and prose may mention one."""


class AnswerError(BottegaError):
    """The answer cannot be used. Its text says why and what form is wanted, fit for the next prompt."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.detail = detail


def answer_text(text: str) -> str:
    """The answer without reasoning, with plain line ends. Raises where nothing but unfinished reasoning came."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    kept: list[str] = []
    at, reasoning = 0, False
    for tag in _TAG.finditer(text):
        closing = tag.group(1) is not None
        if reasoning:
            if closing:
                at, reasoning = tag.end(), False
        elif closing:  # the opening stood in the prompt, as some chat templates have it, or was a nested one
            kept.clear()
            at = tag.end()
        else:
            kept.append(text[at : tag.start()])
            reasoning = True
    if not reasoning:
        kept.append(text[at:])
    answer = "".join(kept).strip()
    if reasoning and not answer:
        raise AnswerError("unfinished", "The reasoning was not finished, so there is no answer. Think less and answer.")
    return answer


def without_thoughts(text: str) -> str:
    """An answer as later prompts have it: letter by letter where it has no thoughts, so that they begin with what was drawn."""
    try:
        return answer_text(text) if _TAG.search(text) else text
    except AnswerError:
        return ""


def one_line(text: str, longest: int) -> str:
    """A text as one paragraph, cut at a word where it is too long."""
    words = " ".join(text[: 8 * longest].split())
    if len(words) <= longest:
        return words
    cut = words[: longest - 2]
    return (cut[: cut.rfind(" ")] if " " in cut[longest // 2 :] else cut).rstrip() + " …"
