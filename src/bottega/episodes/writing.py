"""One kernel: ask the writer, read its answer, have it judged; or take a draft, and have it judged.

Both halves are in the log before the next one begins. Where an answer is certain to fail, the same prompt is sampled again at a higher temperature;
if every sample is, the first one is judged, so that an attempt is always one kernel. Drafts are kernels that are there before the model writes: they
are judged by the same judge under the same rules, and may win. Who draws them is handed in.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.agents import writer
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import Answer, read
from bottega.agents.earlier_turn import earlier_turn_of
from bottega.backbone.chat import Message
from bottega.compiler.callgraph import CallGraph
from bottega.core.device import DeviceFacts
from bottega.core.draft import Draft, Drafts, DraftSource
from bottega.core.errors import BottegaError, BudgetError
from bottega.core.event import Drafted, Judged, Wrote
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict
from bottega.episodes.context import EpisodeContext
from bottega.episodes.node import SearchNode, best_of, faster, is_by_rule
from bottega.episodes.settings import EpisodeSettings
from bottega.languages import candidate_from

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


_FIRST = re.compile(r"s\d+(?:p0|r0t0)|i0g0n0|t0n0|x0n0")
"""Names of the kernels that a search begins with, of a serial or parallel one for each scheme."""


def writer_input(
    task: Task,
    settings: EpisodeSettings,
    device: DeviceFacts,
    skills: Sequence[Skill],
    history: Sequence[SearchNode],
    callgraph: CallGraph | None,
    instruction: str = "",
) -> writer.WriterInput:
    """What the writer is asked with: the kernels before it, oldest first, and which of them is the best."""
    best = best_of(history, settings.baseline)
    return writer.WriterInput(
        task=task,
        language=settings.language,
        device=device,
        skills=tuple(skills),
        past=tuple(earlier_turn_of(node.turn, settings.baseline) for node in history),
        best=earlier_turn_of(best.turn, settings.baseline) if best is not None else None,
        callgraph=callgraph,
        precision=settings.precision,
        baseline=settings.baseline,
        target=settings.stopping.target,
        instruction=instruction,
    )


@dataclass
class EpisodeSearch:
    """Where the kernels of one episode are written: strategies ask it to grow nodes and look at what there is."""

    context: EpisodeContext
    episode: str
    task: Task
    settings: EpisodeSettings
    schemes: Sequence[tuple[Skill, ...]]
    nodes: list[SearchNode] = field(default_factory=list)
    """In the order in which they were judged."""
    ended: str | None = None
    judging: dict[str, Any] = field(default_factory=dict)
    """What a strategy asks of every verdict beside the judge's own settings, such as a profile."""
    traces: list[Trace] = field(default_factory=list)
    """Of a strategy whose answers are not all kernels; others leave it empty, and each line of kernels is a trace."""
    _judging: dict[str, asyncio.Future[tuple[str, Verdict]]] = field(default_factory=dict)

    @property
    def best(self) -> SearchNode | None:
        return best_of(self.nodes, self.settings.baseline)

    def finished(self) -> bool:
        """Whether to begin no more. Once true it stays so, and `ended` says why."""
        if self.ended is None:
            self.ended = self.context.budget.reached() or self.settings.stopping.reason(self.nodes, self.settings.baseline)
        return self.ended is not None

    async def grow(self, name: str, history: Sequence[SearchNode], scheme: int, instruction: str = "") -> SearchNode:
        """Write one kernel that sees the kernels before it, and judge it. `instruction`: what is asked of this one alone."""
        return await self._placed(name, await self._written(name, history, scheme, instruction))

    async def adopt(self, name: str, draft: Draft, author: str) -> SearchNode:
        """Judge a kernel that is no answer of the model. It counts against the budget of kernels, and costs no tokens."""
        return await self.submit(name, Turn("write", "", source=draft.source, summary=draft.summary), author=author)

    async def submit(
        self, name: str, turn: Turn, parent: str | None = None, scheme: int = 0, *, author: str = "", step: str = ""
    ) -> SearchNode:
        """Judge a kernel that is there already: a draft of an author, or what an agent hands in at a step."""
        key = f"{self.episode}/write/{name}"
        wrote = self.context.journal.done(key, Wrote)
        if wrote is not None:
            self.context.budget.kernels += 1
        else:
            self.context.budget.take_kernel()
            wrote = self.context.journal.write(Wrote(key, self.episode, name, parent, scheme, turn, author=author, step=step))
        return await self._placed(name, wrote)

    async def _placed(self, name: str, wrote: Wrote) -> SearchNode:
        verdict = None
        if not wrote.turn.fault:
            verdict = (await self._judged(name, wrote)).verdict
        turn = replace(wrote.turn, verdict=verdict)
        node = SearchNode(name, wrote.parent, wrote.scheme, turn, wrote.author, is_by_rule(wrote, self.nodes))
        self.nodes.append(node)
        return node

    async def _written(self, name: str, history: Sequence[SearchNode], scheme: int, instruction: str) -> Wrote:
        key = f"{self.episode}/write/{name}"
        if self.context.journal.done(key, Wrote) is None:
            self.context.budget.take_kernel()
        else:
            self.context.budget.kernels += 1
        return await self.context.once(key, Wrote, lambda: self._write(key, name, history, scheme, instruction))

    async def _write(self, key: str, name: str, history: Sequence[SearchNode], scheme: int, instruction: str) -> Wrote:
        async with self.context.phases.generating():
            return await self._asked(key, name, history, scheme, instruction)

    async def _asked(self, key: str, name: str, history: Sequence[SearchNode], scheme: int, instruction: str) -> Wrote:
        settings, context = self.settings, self.context
        parent = history[-1].id if history else None
        history = self._with_draft(history)
        callgraph = await context.callgraph(self.task, "write")
        asked = writer_input(self.task, settings, context.device, self.schemes[scheme], history, callgraph, instruction)
        messages = writer.messages(asked, context.prompts, context.room(settings))
        begun = time.monotonic()
        sure = settings.likeliest_first and _FIRST.fullmatch(name)
        asking = replace(settings, temperature=0.0) if sure else settings
        turn = await sampled(context, self.task, asking, key, messages)
        return Wrote(key, self.episode, name, parent, scheme, turn, round(time.monotonic() - begun, 3))

    def _with_draft(self, history: Sequence[SearchNode]) -> Sequence[SearchNode]:
        """Who sees earlier kernels sees the best draft before them; a first kernel is the model's own idea."""
        best = best_of((node for node in self.nodes if node.author and node.parent is None), self.settings.baseline)
        if best is None or not history or any(node.turn.source == best.turn.source for node in history):
            return history
        return [best, *history]

    async def _judged(self, name: str, wrote: Wrote) -> Judged:
        key = f"{self.episode}/judge/{name}"
        known = self.context.journal.done(key, Judged)
        if known is not None:
            self._remember(name, wrote.turn.source, known)
            return known
        by_rule = is_by_rule(wrote, self.nodes)
        return await self.context.journal.once(key, Judged, lambda: self._judge(key, name, wrote.turn.source, by_rule))

    def _remember(self, name: str, source: str, known: Judged) -> None:
        """A verdict from the log stands for the same text when it comes again."""
        candidate = candidate_from(source, name=name)
        if candidate.id not in self._judging:
            future: asyncio.Future[tuple[str, Verdict]] = asyncio.get_running_loop().create_future()
            future.set_result((known.same_as or name, known.verdict))
            self._judging[candidate.id] = future

    async def _judge(self, key: str, name: str, source: str, own_code: bool) -> Judged:
        """The same text is judged once in an episode: models repeat themselves, and a verdict is dear."""
        candidate = candidate_from(source, name=name)
        under_way = self._judging.get(candidate.id)
        if under_way is not None:
            first, verdict = await asyncio.shield(under_way)
            return Judged(key, self.episode, name, verdict, same_as=first)
        future: asyncio.Future[tuple[str, Verdict]] = asyncio.get_running_loop().create_future()
        self._judging[candidate.id] = future
        try:
            async with self.context.phases.judging(self.settings.device):
                begun = time.monotonic()
                options = {**self.judging, "own_code": True} if own_code else self.judging
                verdict = await self.context.judge.judge_async(self.task, candidate, **options)
        except BaseException as error:
            del self._judging[candidate.id]
            future.set_exception(error)
            future.exception()
            raise
        future.set_result((name, verdict))
        return Judged(key, self.episode, name, verdict, seconds=round(time.monotonic() - begun, 3))


async def write_drafts(search: EpisodeSearch, until_faster: bool = False) -> None:
    """Have drafts drawn and judge them, one after the other: each may be all that is needed. `until_faster`: the first that is faster is."""
    key = f"{search.episode}/drafts"
    drafted = search.context.journal.done(key, Drafted)
    if drafted is None:
        draft_source = search.context.draft_source
        if draft_source is None or not search.settings.drafts or search.finished():
            return
        drafted = await search.context.journal.once(key, Drafted, lambda: _drafted(search, draft_source, key))
    for number, draft in enumerate(drafted.drafts, 1):
        if search.finished() or (until_faster and any(map(faster, search.nodes))):
            return
        try:
            await search.adopt(f"draft{number}", draft, drafted.author)
        except BudgetError as error:
            search.ended = search.ended or str(error)
            return


async def _drafted(search: EpisodeSearch, draft_source: DraftSource, key: str) -> Drafted:
    """Whatever happens to the draft_source is told in a line, and the model writes all the same."""
    settings, begun = search.settings, time.monotonic()
    try:
        drawn = await draft_source.drafts(search.task, settings.language, settings.drafts)
    except Exception as error:  # it runs the module's code, which raises what it likes
        drawn = Drafts("", refused=f"{type(error).__name__}: {error}")
    refused = " ".join(drawn.refused.split())
    drafts = drawn.drafts[: settings.drafts]
    return Drafted(key, search.episode, drawn.author, drafts, refused, round(time.monotonic() - begun, 3))
