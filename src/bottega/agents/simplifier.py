"""The simplifier: a fast kernel in, the same kernel with one optimisation less out, and what that optimisation was, as fields of a card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced, outside
from bottega.agents.answers.parse import candidate_source
from bottega.agents.cards import card_data, keyed_cards
from bottega.backbone.chat import Message
from bottega.core.task import Task
from bottega.languages import language_named

SYSTEM = """You take optimisations out of kernels, one at a time. You get a kernel that is right and fast. Remove or weaken exactly one
optimisation (a fused step, a vector access, a tile, a staged copy, pipelining, a precision trick, a split, threads, ...). The result must still
compute the same values, and is plainer and probably slower. Change nothing else.

First describe the optimisation that you removed, as lines of the form `key: value`, all of them:
name: a short snake_case name of the optimisation
intent: one sentence on what it gains, and where
anchor: where in code it applies
data_types: when it is sound as to data types, or none
layout: the same for layout, or none
storage: the same for storage, or none
pipeline: the same for the order of work, or none
hardware: the same for hardware, or none
technique: how to put it in, in two or three sentences
failures: what goes wrong when these conditions do not hold
Then give the whole file without the optimisation in one ```python block. Answer `none` where nothing is left to remove."""
FORM = (
    "Describe one optimisation as key: value lines, then give the whole file without it in one ```python block; or answer none."
)
SHOWN = 4
LONGEST_REFUSAL = 240


@dataclass(frozen=True)
class Simplification:
    feature: str
    source: str
    card: dict[str, Any]
    """Fields of a card: intent, anchor, conditions, technique, failures, tags."""


def messages(task: Task, language: str, source: str, refused: Sequence[tuple[str, str]]) -> list[Message]:
    """`refused`: names of optimisations whose removal the judge did not accept, with the reason."""
    parts = [
        f"The task:\n{fenced(task.source, 'python')}",
        f"The {language_named(language).title} kernel:\n{fenced(source, 'python')}",
    ]
    if refused:
        told = "\n".join(f"- {name}: {one_line(reason, LONGEST_REFUSAL)}" for name, reason in refused[-SHOWN:])
        parts.append(f"Removing these did not work, choose another:\n{told}")
    return [Message("system", SYSTEM), Message("user", "\n\n".join(parts))]


def parse(text: str, task: Task, language: str, device: str) -> Simplification | None:
    """None where the model finds nothing to remove. Raises `AnswerError` for an answer that cannot be used."""
    answer = answer_text(text)
    if len(answer) < 40 and answer.strip("`*. \n").lower() in ("none", "nothing"):
        return None
    source, found = candidate_source(answer)
    cards = keyed_cards(outside(answer, found))
    if not cards:
        raise AnswerError("wrong_form", f"The answer does not say what was removed. {FORM}")
    data = card_data(cards[0], task, language, device, 1.0)
    wanted = ("intent", "anchor", "conditions", "technique", "failures", "tags")
    missing = [name for name in wanted if not data.get(name)]
    feature = re.sub(r"[^a-z0-9]+", "_", str(data.get("name", "")).lower()).strip("_")[:40].strip("_")
    if missing or not feature[:1].isalpha():
        raise AnswerError("wrong_form", f"The answer leaves out {', '.join(missing) or 'a name'}. {FORM}")
    return Simplification(feature, source, {name: data[name] for name in wanted})
