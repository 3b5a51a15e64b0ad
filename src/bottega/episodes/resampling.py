"""One answer of the writer that is worth judging, if a few samples give one.

Where an answer is certain to fail, the same prompt is sampled again at a higher temperature. If every sample is, the first one is judged, so
that an attempt is always one kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import Answer, read
from bottega.backbone.chat import Message
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.episodes.context import EpisodeContext
from bottega.episodes.settings import EpisodeSettings

RESAMPLING_TEMPERATURE = 0.7
"""The least temperature of another sample: at 0 the answer would be the same."""


async def sampled(context: EpisodeContext, task: Task, settings: EpisodeSettings, key: str, messages: list[Message]) -> Turn:
    """The first sample that is not certain to fail, else the first of all. Its tokens and cost are those of all samples."""
    policy = settings.answers
    answer_context = AnswerContext(task.source, settings.language, settings.style)
    answers: list[Answer] = []

    def fields(text: str) -> dict[str, Any]:
        answers.append(answer := read(text, answer_context, policy))
        if answer.fault:
            return {"fault": answer.fault}
        return {"source": answer.source, "summary": answer.summary, "repairs": answer.repairs}

    turns = [await context.generate("write", messages, settings, key, fields)]
    bolder = replace(settings, temperature=max(settings.temperature, RESAMPLING_TEMPERATURE))
    while len(turns) <= policy.resamples and answers[-1].fails:
        if context.budget.reached(("tokens", "money", "seconds")):
            break
        try:
            turns.append(await context.generate("write", messages, bolder, f"{key}/again{len(turns)}", fields))
        except BottegaError:  # what was sampled is not lost by it, and whoever asks next is told
            break
    return replace(
        turns[0 if answers[-1].fails else -1],
        prompt_tokens=sum(turn.prompt_tokens for turn in turns),
        output_tokens=sum(turn.output_tokens for turn in turns),
        cost=sum(turn.cost for turn in turns),
        estimated=any(turn.estimated for turn in turns),
        redrawn=len(turns) - 1,
    )
