"""Where sessions come from: one judge, one library and one set of prompts for all sessions of a process.

Trainers make an environment for each rollout, often thousands; a judge owns processes. So equal settings share one factory (`shared_factory`).
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.closing import Closing
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.turn import Role
from bottega.episodes.context import Judges
from bottega.episodes.selecting import retrieve, selector_input
from bottega.episodes.summarising import advance_of, summariser_input
from bottega.judge.device_facts import device_facts
from bottega.judge.judge import Judge
from bottega.judge.remote import RemoteDevices
from bottega.service.environments.session import SelectorSession, SessionTerms, SummariserSession, WriterSession
from bottega.service.environments.settings import EnvironmentSettings
from bottega.skills.library import Library
from bottega.tasks.load import load_task, load_tasks
from bottega.train.rewards import reward_named
from bottega.train.rewards.verdict_reader import VerdictReader


class SessionFactory(Closing):
    """Thread-safe. A judge or a library that is handed in stays the caller's to close."""

    def __init__(
        self,
        settings: EnvironmentSettings | None = None,
        judge: Judges | None = None,
        library: Library | None = None,
    ) -> None:
        self.settings = settings or EnvironmentSettings()
        episode = self.settings.episode()
        self._own: list[Any] = []
        facts = None
        if judge is None:
            judge, facts = opened_judge(self.settings)
            self._own.append(judge)
        if library is None and self.settings.library is not None:
            library = Library(self.settings.library, create=False)
            self._own.append(library)
        self.judge, self.library = judge, library
        reading = VerdictReader(episode.baseline, self.settings.bound)
        self.terms = SessionTerms(
            episode,
            Prompts(episode.style),
            facts or device_facts(self.settings.device),
            reward_named(self.settings.reward, reading, self.settings.cap),
            self.settings.returns,
            self.settings.gamma,
        )

    def close(self) -> None:
        while self._own:
            self._own.pop().close()

    def writer(self, task: Task, skills: Sequence[Skill] | None = None) -> WriterSession:
        """Without a selector's choice, the cards that retrieval ranks first."""
        cards = self.offered(task)[: self.settings.skills] if skills is None else skills
        return WriterSession(task, self.judge, self.terms, tuple(cards), self._callgraph(task, "write"))

    def selector(self, task: Task) -> SelectorSession | None:
        """None where there is nothing to choose from."""
        offered = self.offered(task)
        if not offered or not self.settings.skills:
            return None
        asked = selector_input(task, self.terms.settings, self.terms.device, offered, self._callgraph(task, "select"))
        return SelectorSession(task, self.terms, asked, tuple(offered))

    def summariser(self, writers: Sequence[WriterSession]) -> SummariserSession | None:
        """Of sessions of one task; None where no later kernel clearly beat its session's first."""
        settings = self.terms.settings
        advance = advance_of([writer.nodes for writer in writers if writer.nodes], settings)
        if advance is None:
            return None
        task = writers[0].task
        asked = summariser_input(task, settings, self.terms.device, advance, self.library)
        return SummariserSession(task, self.terms, asked)

    def offered(self, task: Task) -> list[Skill]:
        if self.library is None:
            return []
        return retrieve(self.library, task, self.terms.settings, self.terms.device, self.library.version)

    def task_of(self, row: Mapping[str, Any]) -> Task:
        """A row of a data set: `source` is a task's text, `task` a name for it or a reference such as builtin:star_relu."""
        source, name = row.get("source"), str(row.get("task") or row.get("name") or "task")
        if isinstance(source, str) and source.strip():
            return Task(source, name).validate()
        if not row.get("task"):
            raise UsageError("a row needs `source`, a task's text, or `task`, a reference such as builtin:star_relu")
        return load_task(name, size=self._size)

    def rows(self, references: Iterable[str]) -> list[dict[str, Any]]:
        """Tasks as plain rows, for a trainer's data set: name, source, and the writer's first prompt."""
        loaded = load_tasks(references, size=self._size)
        if not loaded.tasks:
            raise UsageError(loaded.problems[0].message if loaded.problems else "no task was named")
        return [{"task": task.name, "source": task.source, "prompt": chat(self.writer(task).messages)} for task in loaded.tasks]

    @property
    def _size(self) -> str:
        return "cpu" if self.settings.device == "cpu" else "gpu"

    def _callgraph(self, task: Task, role: Role) -> CallGraph | None:
        return shared_tracer().trace(task) if self.terms.prompts.shows(role, "callgraph") else None


def opened_judge(settings: EnvironmentSettings) -> tuple[Any, DeviceFacts]:
    """A judge of this process, or the client of a served one; with the facts of the device that judges, which the prompts name."""
    if not settings.judge:
        return Judge(settings.device, **settings.judge_options()), device_facts(settings.device)
    served = RemoteDevices(settings.judge)
    return served.judge(settings.device, **settings.judge_options()), served.facts(settings.device)


@cache
def shared_factory(settings: EnvironmentSettings) -> SessionFactory:
    """The process's factory for these settings; closed when the process ends."""
    factory = SessionFactory(settings)
    atexit.register(factory.close)
    return factory


def factory_for(values: Mapping[str, Any] | EnvironmentSettings | SessionFactory | None) -> SessionFactory:
    """From whatever a trainer's configuration gives."""
    if isinstance(values, SessionFactory):
        return values
    if isinstance(values, EnvironmentSettings):
        return shared_factory(values)
    return shared_factory(EnvironmentSettings.model_validate(dict(values or {})))


def chat(messages: Iterable[Message]) -> list[dict[str, str]]:
    """Messages as every trainer takes them."""
    return [{"role": message.role, "content": message.content} for message in messages]
