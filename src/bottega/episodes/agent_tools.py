"""Carries out an agent's calls: on its files here, on its programs in a sandbox, on its kernel by the judge.

What a program or a search found is in the log; what follows from the calls alone (files, listings) is computed again when a run is resumed, and
verdicts are the search's own. So a resumed run repeats nothing that was done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bottega.agents.agent import KERNEL, arguments_of
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.fences import fenced
from bottega.agents.answers.pipeline import read
from bottega.agents.critic import profile_text
from bottega.agents.earlier_turn import earlier_turn_of
from bottega.backbone.tool_calls import ToolCall
from bottega.core.event import ToolRan
from bottega.core.skill import Skill, SkillState
from bottega.core.turn import Turn
from bottega.episodes.agent_files import AgentFiles, ToolError
from bottega.episodes.agent_sandbox import BUILD, CHECK, CHECK_SOURCE, ProgramResult, shared_sandbox
from bottega.episodes.node import SearchNode, best_of
from bottega.episodes.selecting import filter_for
from bottega.episodes.writing import EpisodeSearch
from bottega.skills.agent_skills import SKILL_FILE, description_of, folder_name, read_folders, skill_markdown
from bottega.skills.query import query_from_text

FOUND = 5
"""Cards that a search puts into the directory."""


@dataclass
class AgentTools:
    """Of one line of an agent."""

    search: EpisodeSearch
    line: str
    scheme: int
    files: AgentFiles
    nodes: list[SearchNode] = field(default_factory=list)
    """Kernels that were judged, in order."""
    finished: bool = False

    @property
    def over(self) -> bool:
        """Whether this line may do no more: it has ended itself, or had its kernels judged, or the search is over."""
        return self.finished or len(self.nodes) >= self.search.settings.turns or self.search.finished()

    async def carry_out(self, call: ToolCall, key: str) -> str:
        """What a tool returns, errors included: they are for the agent to read."""
        try:
            given = arguments_of(call)
            if call.name in ("read", "write", "edit"):
                return str(getattr(self.files, call.name)(**given))
            return await self._tool(call.name, given, key)
        except (ToolError, ValueError) as error:
            return f"error: {error}"

    async def _tool(self, name: str, given: dict[str, str], key: str) -> str:
        if name in ("judge", "profile"):
            count = len(self.nodes)
            node = await self._judged(key)
            if name == "judge":
                return ("" if len(self.nodes) > count else "The same text was judged before: ") + self._verdict(node)
            return (await self._once(f"{key}/profile", name, lambda: self._profiled(node))).result
        if name in ("build", "run"):
            program = BUILD if name == "build" else self.files.inside(given["path"])
            ran = await self._once(key, name, lambda: self._program(program))
            refused = self.files.take(ran.changed)
            return ran.result + "".join(f"\n{told}" for told in refused)
        if name == "search_skills":
            ran = await self._once(key, name, lambda: self._found(given["query"]))
            self.files.given.update(ran.changed)
            return ran.result
        self.finished = True
        return "Done."

    async def add_skills(self, skills: tuple[Skill, ...], key: str) -> list[str]:
        """Lay the cards of a selection, and the user's own SKILL.md files, into the directory as they are now; a line for each."""
        ran = await self._once(key, "skills", lambda: self._laid_out(skills, self.search.settings.skill_files))
        self.files.given.update(ran.changed)
        return ran.result.splitlines()

    async def _once(self, key: str, tool: str, make: Callable[[], Awaitable[ProgramResult]]) -> ToolRan:
        async def made() -> ToolRan:
            begun = time.monotonic()
            found = await make()
            seconds = round(time.monotonic() - begun, 3)
            return ToolRan(key, self.search.episode, self.line, tool, found.output, found.changed, seconds)

        return await self.search.context.journal.once(key, ToolRan, made)

    async def _program(self, program: str) -> ProgramResult:
        settings = self.search.settings
        async with self.search.context.phases.judging(settings.device):
            sandbox = await asyncio.to_thread(shared_sandbox, settings.device)
            return await asyncio.to_thread(sandbox.run, self.files.all, program)

    async def _found(self, words: str) -> ProgramResult:
        library, settings = self.search.context.library, self.search.settings
        if library is None:
            return ProgramResult("This run has no skill library.", {})
        states = (SkillState.ADMITTED, SkillState.PROPOSED) if settings.unproved else (SkillState.ADMITTED,)
        only = filter_for(self.search.task, settings, self.search.context.device, states)
        hits = await asyncio.to_thread(library.search, query_from_text(words), FOUND, only)
        if not hits:
            return ProgramResult("No card fits.", {})
        return await self._laid_out(tuple(hit.skill for hit in hits))

    async def _laid_out(self, skills: tuple[Skill, ...], folder: str = "") -> ProgramResult:
        library = self.search.context.library
        pages = {
            folder_name(skill): skill_markdown(skill, library.evidence.trials(skill.name) if library is not None else ())
            for skill in skills
        }
        told = [skill.intent for skill in skills]
        if folder:
            own = {name: page for name, page in read_folders(Path(folder)).items() if name not in pages}
            told += [description_of(page) for page in own.values()]
            pages |= own
        files = {f"skills/{name}/{SKILL_FILE}": page for name, page in pages.items()}
        return ProgramResult("\n".join(f"{path}: {' '.join(text.split())}" for path, text in zip(files, told)), files)

    async def _judged(self, key: str) -> SearchNode:
        settings, search = self.search.settings, self.search
        if KERNEL not in self.files.own:
            raise ToolError(f"there is no {KERNEL} yet")
        context = AnswerContext(search.task.source, settings.language, settings.style)
        answer = read(fenced(self.files.own[KERNEL], "python"), context, replace(settings.answers, resamples=0))
        if answer.fault:
            raise ToolError(f"{KERNEL}: {answer.fault}")
        same = next((node for node in self.nodes if node.turn.source == answer.source), None)
        if same is not None:
            return same
        turn = Turn("write", "", source=answer.source, summary=answer.summary, repairs=answer.repairs)
        parent = self.nodes[-1].id if self.nodes else None
        node = await search.submit(f"{self.line}t{len(self.nodes)}", turn, parent, self.scheme, step=key.rpartition("/")[0])
        self.nodes.append(node)
        return node

    def _verdict(self, node: SearchNode) -> str:
        told = earlier_turn_of(node.turn, self.search.settings.baseline)
        # Of this line: other lines may be elsewhere when a run is resumed.
        best = best_of(self.nodes, self.search.settings.baseline)
        text = f"{told.outcome_text}\n{told.diagnosis}"
        if best is not None and best.id != node.id:
            text += f"\nBest so far: {earlier_turn_of(best.turn, self.search.settings.baseline).outcome_text}."
        return text

    async def _profiled(self, node: SearchNode) -> ProgramResult:
        """Judged once more, with a profile: most verdicts are wanted without, and are given sooner so."""
        context, device = self.search.context, self.search.settings.device
        async with context.phases.judging(device):
            verdict = await context.judge.judge_async(self.search.task, node.candidate, profile=True)
        told = [str(verdict.profile.get("bottleneck") or ""), profile_text(verdict.profile)]
        return ProgramResult("\n".join([self._verdict(node), *filter(None, told)]), {})


def given_files(task_source: str) -> dict[str, str]:
    """What every agent finds in its directory."""
    return {"task.py": task_source, CHECK: CHECK_SOURCE}
