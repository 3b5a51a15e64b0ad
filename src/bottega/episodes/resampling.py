"""One answer of the writer that is worth judging, if a few draws give one.

Proofreading sees slips that are certain to fail, and where an answer departs from the sketch whose names it uses. Then the same prompt is asked again
with more chance; if no draw is free of that the best one stands, the first of equals, so that an attempt is always one kernel. What can be
mended for certain is: layers and inputs that a network's answer leaves out, operands at another's places and misspelt names before that, rows
that are too long for one program after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bottega.agents import writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.lint.bounds import reaches
from bottega.agents.answers.lint.call_order import strayed
from bottega.agents.answers.lint.callgraph import doubts
from bottega.agents.answers.lint.shapes import misfits
from bottega.agents.answers.repairs.long_rows import taken_in_pieces
from bottega.agents.answers.repairs.operands import put_right
from bottega.agents.answers.repairs.spelling import respelled, within_shapes
from bottega.backbone.chat import Message
from bottega.compiler.link import completed
from bottega.compiler.networks import made_whole
from bottega.compiler.source.check import faults
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.episodes.context import Workshop
from bottega.episodes.settings import EpisodeSettings

CHANCE = 0.7
"""The least temperature of another draw: without chance the answer would be the same."""


async def drawn(
    workshop: Workshop, task: Task, settings: EpisodeSettings, key: str, messages: list[Message], sketch: str = ""
) -> Turn:
    """The first draw without a fault or doubt, else the first without a fault, else the first. Its tokens and cost are those of every draw."""
    draws = [await workshop.say("write", messages, settings, key, lambda text: _read(text, task, settings, sketch))]
    bolder = replace(settings, temperature=max(settings.temperature, CHANCE))
    marks = [_mark(draws[0], task, settings, sketch) if settings.redraws else 0]
    while len(draws) <= settings.redraws and marks[-1]:
        if workshop.budget.reached(("tokens", "money", "seconds")):
            break
        where = f"{key}/again{len(draws)}"
        try:
            draws.append(await workshop.say("write", messages, bolder, where, lambda text: _read(text, task, settings, sketch)))
        except BottegaError:  # what was drawn is not lost by it, and whoever asks next is told
            break
        marks.append(_mark(draws[-1], task, settings, sketch))
    chosen = draws[marks.index(min(marks))]
    return replace(
        chosen,
        source=taken_in_pieces(within_shapes(chosen.source, sketch), sketch) if _mends(settings) else chosen.source,
        prompt_tokens=sum(draw.prompt_tokens for draw in draws),
        output_tokens=sum(draw.output_tokens for draw in draws),
        cost=sum(draw.cost for draw in draws),
        estimated=any(draw.estimated for draw in draws),
        redrawn=len(draws) - 1,
    )


def _mark(turn: Turn, task: Task, settings: EpisodeSettings, sketch: str) -> int:
    """0 for an answer to judge, 1 for one in doubt, 2 for one that must fail."""
    if turn.fault or faults(turn.source, task.source, settings.language):
        return 2
    return int(_is_terse(settings) and any(look(turn.source, sketch) for look in (doubts, strayed, misfits, reaches)))


def _is_terse(settings: EpisodeSettings) -> bool:
    """Whether answers are of the form that these looks know: Triton by a model that was trained on sketches."""
    return settings.style == "terse" and settings.language == "triton"


def _mends(settings: EpisodeSettings) -> bool:
    """Training never draws again, and mends nothing either: a policy must see its own faults."""
    return _is_terse(settings) and settings.redraws > 0


def _read(text: str, task: Task, settings: EpisodeSettings, sketch: str) -> dict[str, Any]:
    """The kernel with what it takes from the task's file: it is judged, kept and delivered whole."""
    try:
        written = writer.parse(text)
    except AnswerError as error:
        return {"fault": str(error)}
    if not _mends(settings):
        return {"source": completed(written.source, task.source), "summary": written.summary}
    source = completed(put_right(made_whole(written.source, task.source), sketch), task.source)
    return {"source": respelled(source, task.source, sketch), "summary": written.summary}
