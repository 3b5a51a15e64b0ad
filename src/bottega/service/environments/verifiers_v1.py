"""verifiers v1 (prime-rl, and every trainer that takes its episodes): the three roles as three agents, each of which may be trained.

Read as `--env.taskset.id bottega-kernels`; the module `bottega_kernels` exists because verifiers finds plug-ins by the name of a package. Tested
against verifiers 0.4.0 with real episodes. Agents speak through verifiers' interception from this process: nothing of them needs a box.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import httpx
import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.errors import MODEL_TRANSPORT_ERROR_EXIT_CODE
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig

from bottega.backbone.chat import Message
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.service.environments.factory import SessionFactory, factory_for
from bottega.service.environments.session import WriterSession
from bottega.service.environments.settings import EnvironmentSettings
from bottega.skills.gate import Decision, GatePair, Rules, decide, worth
from bottega.tasks.load import load_tasks
from bottega.train.admission import siblings_of

SIBLINGS = 6
"""Tasks beside its own that a card is tried on."""


class KernelData(vf.TaskData):
    source: str = ""


class KernelTask(vf.Task[KernelData]):
    """A row of the task set. What is asked and what it earns is the environment's."""


class KernelTasksetConfig(vf.TasksetConfig):
    tasks: list[str] = Field(default_factory=lambda: ["builtin"])
    """Task files, folders, builtin:level1, kernelbench:level1."""
    size: str = "cpu"
    """Of built-in tasks: cpu or gpu."""


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterable[KernelTask]:
        for task in self.kernel_tasks():
            yield KernelTask(KernelData(name=task.name, source=task.source, id=task.id), self.config.task)

    def kernel_tasks(self) -> tuple[Task, ...]:
        return load_tasks(self.config.tasks, size=self.config.size).tasks


class ChatHarnessConfig(vf.HarnessConfig):
    pass


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """One answer to the conversation so far. It calls no tools and runs no code."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: vf.TaskData
    ) -> ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt or ())
        body = {"model": ctx.model, "messages": [*messages, *said]}
        async with httpx.AsyncClient(timeout=httpx.Timeout(None, connect=5.0)) as client:
            try:
                reply = await client.post(
                    f"{endpoint.rstrip('/')}/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"}
                )
            except httpx.HTTPError as error:
                return ProgramResult(exit_code=MODEL_TRANSPORT_ERROR_EXIT_CODE, stdout="", stderr=str(error))
        return ProgramResult(exit_code=int(reply.is_error), stdout="", stderr=reply.text[-2000:] if reply.is_error else "")


_HERE = SubprocessConfig()


class KernelEnvConfig(vf.EnvConfig):
    selector: vf.AgentConfig = vf.AgentConfig(runtime=_HERE)
    writer: vf.AgentConfig = vf.AgentConfig(runtime=_HERE)
    summariser: vf.AgentConfig = vf.AgentConfig(runtime=_HERE)
    kernels: EnvironmentSettings = EnvironmentSettings()
    """Who judges, how many turns, which reward."""
    samples: int = Field(2, ge=1)
    """Writers with the selection, and as many without any card."""
    proof_rounds: int = Field(8, ge=0)
    """Rounds of the admission gate for a proposed card, of four kernels each: with and without it, on two tasks. 0 asks for no cards."""


class KernelEnv(vf.Env[KernelEnvConfig]):
    """Select, write with and without the selection, summarise a clear advance, prove the card."""

    def __init__(self, config: KernelEnvConfig, factory: SessionFactory | None = None) -> None:
        super().__init__(config)
        self.factory = factory or factory_for(config.kernels)

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        ours = Task(task.data.source, task.data.name or "task")
        selector = await asyncio.to_thread(self.factory.selector, ours)
        chosen: tuple[Skill, ...] = ()
        selecting: vf.Trace | None = None
        if selector is not None:
            async with agents.selector.interaction(_asked(selector.messages)) as talk:
                selector.submit((await talk.turn()).last_reply)
            selecting, chosen = talk.trace, selector.chosen or ()
        schemes = [(), chosen] if chosen else [()]
        async with asyncio.TaskGroup() as group:
            writing = [
                group.create_task(self.write(agents.writer, ours, scheme))
                for scheme in schemes
                for _ in range(self.config.samples)
            ]
        sessions = [each.result() for each in writing]
        if selector is not None and selecting is not None:
            with_choice = sessions[-self.config.samples :]  # who chose nothing is credited with what no card gave
            _rewarded(selecting, "selection", selector.credit(session.score for session in with_choice))
        if self.config.proof_rounds:
            await self.summarise(agents, ours, sessions)

    async def write(self, agent: vf.Agent, task: Task, skills: Sequence[Skill], turns: int | None = None) -> WriterSession:
        """One conversation with the writer, judged turn by turn, with its reward on its trace."""
        session = await asyncio.to_thread(self.factory.writer, task, skills)
        async with agent.interaction(_asked(session.messages)) as talk:
            answer = await talk.turn()
            while not answer.terminated:
                step = await session.submit_async(answer.last_reply)
                if step.done or len(session.nodes) == turns:
                    break
                answer = await talk.turn(step.feedback)
        _rewarded(talk.trace, "kernel", session.score if session.nodes else self.factory.terms.reward(None))
        for name, value in session.facts().items():
            if isinstance(value, int | float):
                talk.trace.record_metric(name, float(value))
        return session

    async def summarise(self, agents: vf.Agents, task: Task, sessions: Sequence[WriterSession]) -> None:
        summariser = await asyncio.to_thread(self.factory.summariser, sessions)
        if summariser is None:
            return
        async with agents.summariser.interaction(_asked(summariser.messages)) as talk:
            step = summariser.submit((await talk.turn()).last_reply)
        reward = step.reward
        if summariser.proposals is not None and summariser.proposals.skills:
            decision = await self.prove(agents.writer, task, summariser.proposals.skills[0])
            reward = summariser.credit([decision] if decision is not None else [])
        _rewarded(talk.trace, "uplift", reward)

    async def prove(self, agent: vf.Agent, task: Task, card: Skill) -> Decision | None:
        """The gate's decision, from fresh attempts with and without the card, which are measurements and no training data."""
        tried = [task, *siblings_of(task, self.taskset.kernel_tasks(), SIBLINGS)]
        if len(tried) < 2:
            return None
        rounds = self.config.proof_rounds
        rules = Rules(least_rounds=min(4, rounds), most_rounds=rounds, baseline=self.factory.terms.settings.baseline)
        pairs: dict[str, list[GatePair]] = {each.id: [] for each in tried}
        trained, agent.trainable = agent.trainable, False
        try:
            while True:
                for each in tried:
                    arms = [await self.write(agent, each, skills, turns=1) for skills in ((card,), ())]
                    pairs[each.id].append(GatePair(*(worth(_verdict(arm), rules) for arm in arms)))
                decision = decide(pairs, task.id, rules)
                if decision.step != "go on":
                    return decision
        finally:
            agent.trainable = trained


def _asked(messages: Sequence[Message]) -> vf.Task:
    system, user = messages
    return vf.Task(vf.TaskData(system_prompt=system.content, prompt=user.content))


def _rewarded(trace: vf.Trace, name: str, reward: float | None) -> None:
    """A trace that nobody could judge is no training data: 0 would be a reward."""
    if reward is not None:
        trace.record_reward(name, reward)
    elif trace.agent is not None:
        trace.agent.trainable = False


def _verdict(session: WriterSession) -> Verdict:
    found = session.nodes[-1].verdict if session.nodes else None
    return found or Verdict(Outcome.COMPILE_ERROR, task_id=session.task.id)


__all__ = ["ChatHarness", "KernelEnv", "KernelEnvConfig", "KernelTask", "KernelTaskset", "KernelTasksetConfig"]
