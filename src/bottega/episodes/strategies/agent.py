"""An agent with tools (CUDA Agent): the model works in a directory, step by step, and decides itself when to have its kernel judged.

A line is one conversation. `turns` bounds the kernels that it may have judged, `steps` its answers, and the run's budget both; the judge alone says
what a kernel is worth. Every answer is in the log before its calls are carried out. The whole conversation is one trace: the model's answers are
learned from, what tools returned is context.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from bottega.agents import agent as agent_prompts
from bottega.agents.agent import KERNEL, TOOLS, AgentAnswer
from bottega.backbone.chat import Message
from bottega.backbone.reply import ContextError
from bottega.backbone.tool_calls import ToolCall
from bottega.core.event import AgentStepped
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.episodes.agent_files import AgentFiles
from bottega.episodes.agent_tools import AgentTools, given_files
from bottega.episodes.context import turn_of
from bottega.episodes.node import best_of
from bottega.episodes.strategies.lanes import schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch, writer_input

IDLE = 3
"""Answers in a row that do nothing, after which a line ends."""

MOST_CALLS = 32
"""Calls of one answer that are carried out: each may run a program."""
TOO_MANY = f"error: an answer has at most {MOST_CALLS} calls; this one was not carried out."


async def agent(search: EpisodeSearch) -> None:
    await side_by_side(
        search,
        (_line(search, scheme, sample) for sample in range(search.settings.samples) for scheme in schemes_in_use(search)),
    )
    search.traces.sort(key=lambda trace: trace.id)  # not by arrival


async def _line(search: EpisodeSearch, scheme: int, sample: int) -> None:
    line = f"s{scheme}r{sample}"
    tools = AgentTools(search, line, scheme, AgentFiles(given_files(search.task.source)))
    turns: list[Turn] = []
    try:
        await _work(search, tools, turns, first=sample == 0)
    finally:
        if turns:
            search.traces.append(Trace(f"{search.episode}/write/{line}", "write", tuple(turns), scheme))


async def _work(search: EpisodeSearch, tools: AgentTools, turns: list[Turn], first: bool) -> None:
    settings, prefix = search.settings, f"{search.episode}/step/{tools.line}"
    draft = best_of((node for node in search.nodes if node.author), settings.baseline)
    if draft is not None:
        tools.files.own[KERNEL] = draft.turn.source
    talk = await _opening(search, tools, prefix)
    added, idle = len(talk), 0
    for number in range(settings.steps):
        if tools.over or idle == IDLE:
            return
        talk = agent_prompts.shortened(talk, search.context.room(settings))
        likeliest = first and number == 0 and settings.likeliest_first
        step = _Step(search, tools.line, f"{prefix}/{number}", tuple(talk), added, likeliest)
        try:
            stepped = await search.context.once(step.key, AgentStepped, step.asked)
        except ContextError:
            if not turns:
                raise
            return  # what was judged stands; nothing more can be asked in this conversation
        calls = [ToolCall(**call) for call in stepped.calls]
        turns.append(stepped.turn)
        judged, results = len(tools.nodes), []
        for place, call in enumerate(calls):
            if tools.over:
                break
            results.append(await tools.carry_out(call, f"{step.key}/{place}") if place < MOST_CALLS else TOO_MANY)
            if len(tools.nodes) > judged:
                turns[-1] = replace(stepped.turn, source=tools.nodes[-1].turn.source, verdict=tools.nodes[-1].verdict)
        idle = 0 if calls else idle + 1
        said = agent_prompts.reply(stepped.turn.text, calls, results, stepped.turn.fault)
        talk, added = [*talk, *said], len(said)


async def _opening(search: EpisodeSearch, tools: AgentTools, prefix: str) -> list[Message]:
    context, settings, skills = search.context, search.settings, search.schemes[tools.scheme]
    lines = await tools.add_skills(skills, f"{prefix}/skills") if skills or settings.skill_files else []
    callgraph = await context.callgraph(search.task, "write")
    asked = writer_input(search.task, settings, context.device, skills, (), callgraph)
    plain = not context.calls_tools
    return agent_prompts.messages(asked, tools.files.listing(), lines, context.prompts, plain, context.room(settings))


@dataclass(frozen=True)
class _Step:
    search: EpisodeSearch
    line: str
    key: str
    talk: tuple[Message, ...]
    added: int
    """Messages at its end that the step before has not seen: the log keeps these alone, or it would grow with the square of the steps."""
    likeliest: bool

    async def asked(self) -> AgentStepped:
        context, settings, talk = self.search.context, self.search.settings, list(self.talk)
        if self.likeliest:
            settings = replace(settings, temperature=0.0)
        async with context.phases.generating():
            begun = time.monotonic()
            answer = await context.answer(talk, settings, self.key, TOOLS if context.calls_tools else ())
        found: AgentAnswer = agent_prompts.parse(answer.text, answer.calls)
        turn = turn_of(
            "write", talk[-self.added :], answer, {"fault": found.fault, "tools": tuple(call.name for call in found.calls)}
        )
        context.budget.spend(turn)
        calls = tuple({"id": call.id, "name": call.name, "arguments": call.arguments} for call in found.calls)
        seconds = round(time.monotonic() - begun, 3)
        return AgentStepped(self.key, self.search.episode, self.line, turn, calls, seconds)
