"""Steps from a model: it takes optimisations out, and in fresh conversations puts them in again from the card alone.

Every answer is in the journal under the question that it answers, so that a run that was killed asks for nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence

from bottega.agents import simplifier, writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import ADMISSION, read
from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompt_budget import PromptBudget
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.client import Client
from bottega.core.closing import Closing
from bottega.core.device import DeviceFacts
from bottega.core.errors import CardError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.episodes.context import PROMPT_SHARE, seed_of
from bottega.lineage.journal import LineageJournal, Record
from bottega.lineage.rule import Edit
from bottega.lineage.step import Attempt
from bottega.lineage.walk import Proposal
from bottega.skills.validation import admit_data

TRIES = 3
"""Answers that are asked for before a kernel counts as plain, or a card's step as not redone."""


class ModelSteps(Closing):
    def __init__(
        self,
        client: Client,
        journal: LineageJournal,
        task: Task,
        language: str,
        device: DeviceFacts,
        prompts: Prompts,
        max_tokens: int,
    ) -> None:
        self.client, self.journal, self.task, self.language = client, journal, task, language
        self.device, self.prompts, self.max_tokens = device, prompts, max_tokens
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()

    def propose(self, source: str, number: int, refused: Sequence[Attempt]) -> Iterator[Proposal]:
        """One optimisation less, as the model sees it. What it says of it must make a card, or it is asked again."""
        reasons = [(attempt.feature, f"{attempt.outcome}: {attempt.diagnosis}") for attempt in refused]
        for attempt in range(TRIES):
            text = self._answer(simplifier.messages(self.task, self.language, source, reasons), f"undo {number}", attempt)
            try:
                found = simplifier.parse(text, self.task, self.language, self.device.kind)
                if found is None:
                    return
                _check(found, self.language, self.device.kind)
            except (AnswerError, CardError) as error:
                reasons.append(("unusable answer", str(error)))
                continue
            yield Proposal(found.feature, Edit(found.source, "the kernel"), found.card)

    def redo(self, card: Skill, task: Task, plain: str) -> Iterator[Edit]:
        """The writer's own prompt, with the card and the plain kernel in it."""
        begun = EarlierTurn(
            plain, "A plain version, to begin from.", "It is right. Make it faster with the skill.", "same", None
        )
        given = writer.WriterInput(task, self.language, self.device, (card,), (begun,), begun)
        room = min(self.client.context - self.max_tokens, int(self.client.context * PROMPT_SHARE))
        messages = writer.messages(given, self.prompts, PromptBudget(max(room, 256), self.client.count_tokens))
        for attempt in range(TRIES):
            text = self._answer(messages, f"redo {card.name} on {task.id}", attempt)
            answer = read(text, AnswerContext(task.source, self.language, self.prompts.style), ADMISSION)
            if not answer.fault:
                yield Edit(answer.source, "the kernel", card.relations.provides[0].partition("=")[2])

    def _answer(self, messages: Sequence[Message], purpose: str, attempt: int) -> str:
        asked = hashlib.sha256("\0".join(message.content for message in messages).encode()).hexdigest()[:16]

        def ask() -> Record:
            sampling = Sampling(self.max_tokens, seed=seed_of(attempt, asked))
            drawn = self._runner.run(self.client.generate(messages, sampling))
            usage = {"prompt": drawn.usage.prompt_tokens, "answer": drawn.usage.output_tokens}
            return {"purpose": purpose, "text": drawn.text, "tokens": usage}

        text: str = self.journal.once(f"answer/{asked}/{attempt}", ask)["text"]
        return text


def _check(found: simplifier.Simplification, language: str, device: str) -> None:
    """Raises `CardError` where no card can be made of what the model said."""
    fixed = {"name": found.feature, "scope": "general", "languages": [language], "devices": [device]}
    admit_data({**found.card, **fixed, "example": "(from the step)", "effect": "(measured)"}, found.feature)
