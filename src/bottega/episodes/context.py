"""The parts that an episode works with, handed in: a client, a judge, a library, prompts, a log and a budget.

Nothing here knows which model answers or on what machine kernels are judged, so the same episode runs in a test, on a laptop and
across a cluster.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bottega.agents.prompt_budget import PromptBudget as Room
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.client import Client, Generation
from bottega.backbone.tool_calls import ToolSpec
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.draft import DraftSource
from bottega.core.task import Task
from bottega.core.turn import Role, Turn
from bottega.core.verdict import Verdict
from bottega.episodes.budget import RunBudget
from bottega.episodes.journal import EpisodeJournal, Kind
from bottega.episodes.knob_memory import KnobMemory
from bottega.episodes.phases import Phases, share_device
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.library import Library

PROMPT_SHARE, LEAST_SHARE = 0.7, 0.5
"""Of the context, at most and at least this may be prompt: an answer that has no room is no answer, nor is one to half a question."""


class AsyncJudge(Protocol):
    """What an episode needs of a judge."""

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict: ...


class BlockingJudge(Protocol):
    """What a proof or a lineage needs of a judge: they have threads."""

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict: ...


class Judges(AsyncJudge, BlockingJudge, Protocol):
    """Verdicts for episodes, which wait on an event loop, and for who has threads: `Judge`, or any other with these methods."""


class CandidateMeasure(Protocol):
    """The cheap measuring mode: many candidates of one task side by side, without a sandbox between them."""

    def judge_many(
        self, task: Task, candidates: Sequence[Candidate], *, rounds: int = 0, profiled: bool = True
    ) -> list[Verdict | None]: ...


@dataclass
class EpisodeContext:
    client: Client
    judge: AsyncJudge
    library: Library | None
    prompts: Prompts
    device: DeviceFacts
    journal: EpisodeJournal
    budget: RunBudget = field(default_factory=RunBudget)
    draft_source: DraftSource | None = None
    """Who writes kernels by rule before the model does, if anyone."""
    shared: Phases | None = None
    """Of the device on which the model draws, where the client does not tell it."""
    measuring: CandidateMeasure | None = None
    """Where knobs are tuned; None leaves it to the judge."""
    knob_memory: KnobMemory = field(default_factory=KnobMemory)
    _tracing: dict[str, asyncio.Future[CallGraph | None]] = field(default_factory=dict)
    """By source, while it is under way: all rollouts of a task begin at once, and ask for the same."""

    def __post_init__(self) -> None:
        self.phases = self.shared or share_device(self.client)
        self.knob_memory.read(self.journal.events)

    def room(self, settings: EpisodeSettings) -> Room:
        """Tokens that a prompt may have."""
        context = self.client.context
        tokens = min(int(context * PROMPT_SHARE), max(context - settings.max_tokens, int(context * LEAST_SHARE)))
        return Room(tokens, self.client.count_tokens)

    async def callgraph(self, task: Task, role: Role) -> CallGraph | None:
        """What the task calls, with shapes, where the role's prompt has a place for it."""
        if not self.prompts.shows(role, "callgraph"):
            return None
        tracing = self._tracing.get(task.source)
        if tracing is None:
            tracing = asyncio.ensure_future(asyncio.to_thread(shared_tracer().trace, task))
            self._tracing[task.source] = tracing
            tracing.add_done_callback(lambda _: self._tracing.pop(task.source, None))
        return await asyncio.shield(tracing)  # who gives up does not end it for the others

    async def once(self, key: str, kind: type[Kind], make: Callable[[], Awaitable[Kind]]) -> Kind:
        """The event with this key, made now or from the log. What a turn from the log took counts, so that a resumed run keeps to its budget."""
        known = self.journal.done(key, kind)
        if known is None:
            return await self.journal.once(key, kind, make)
        if known.turn is not None:
            self.budget.spend(known.turn)
        return known

    async def generate(
        self, role: Role, messages: list[Message], settings: EpisodeSettings, where: str, read: Callable[[str], dict[str, Any]]
    ) -> Turn:
        """One answer as a turn; `read` says what is in it. An answer that cannot be read is a turn with a fault, not an error."""
        answer = await self.answer(messages, settings, where)
        found = read(answer.text)
        if (
            found.get("fault") and answer.stop_reason == "length"
        ):  # what is missing is behind the cut: the next answer must not look for it
            cut = f"The answer was cut off after {answer.usage.output_tokens} tokens, so write a shorter one."
            found["fault"] = f"{cut} {found['fault']}"
        turn = turn_of(role, messages, answer, found)
        self.budget.spend(turn)
        return turn

    @property
    def calls_tools(self) -> bool:
        """Whether the model is given tools by the server's protocol; others are told of them in the prompt."""
        return bool(getattr(self.client, "calls_tools", False))

    async def answer(
        self, messages: list[Message], settings: EpisodeSettings, where: str, tools: Sequence[ToolSpec] = ()
    ) -> Generation:
        """One answer as it came, not yet in the budget."""
        sampling = Sampling(settings.max_tokens, settings.temperature, seed=seed_of(settings.seed, where), stop=settings.stop)
        given: dict[str, Any] = {"tools": tools} if tools else {}
        return await self.client.generate(messages, sampling, **given)


def turn_of(role: Role, messages: list[Message], answer: Generation, found: dict[str, Any]) -> Turn:
    return Turn(
        role=role,
        text=answer.text,
        prompt="\n\n".join(f"[{message.role}]\n{message.text}" for message in messages),
        stop_reason=answer.stop_reason,
        prompt_tokens=answer.usage.prompt_tokens,
        output_tokens=answer.usage.output_tokens,
        cost=answer.usage.cost,
        estimated=answer.usage.estimated,
        prompt_ids=answer.prompt_ids,
        output_ids=answer.output_ids,
        logprobs=answer.logprobs,
        policy_version=answer.policy_version,
        **found,
    )


def seed_of(seed: int, where: str) -> int:
    """The same place in the same run always draws alike, whatever ran before it."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{where}".encode()).digest()[:6], "big")
