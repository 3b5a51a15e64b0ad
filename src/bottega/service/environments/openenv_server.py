"""OpenEnv: the session behind its HTTP and WebSocket server, and the typed client for it.

Tested against openenv 0.10.0: its own server on a port, its own client, a real verdict. An observation's reward is that turn's; the score of
the whole session is in its metadata. `python -m bottega.service.environments.openenv_server` serves on this machine only.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any

import uvicorn
from fastapi import FastAPI
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.errors import JudgeError, UsageError
from bottega.service.environments.factory import SessionFactory, chat, factory_for
from bottega.service.environments.session import WriterSession
from bottega.service.environments.settings import EnvironmentSettings

SESSIONS = 64
"""Open at once."""


class KernelAction(Action):
    text: str = Field(max_length=4 * SOURCE_LIMIT)
    """The model's answer as it came."""


class KernelObservation(Observation):
    messages: list[dict[str, str]] = Field(default_factory=list)
    """The prompt of the next turn, whole."""
    feedback: str = ""
    """What the judge found, for a conversation that goes on."""


class KernelState(State):
    task: str = ""
    score: float | None = None


class OpenEnvKernels(Environment[KernelAction, KernelObservation, KernelState]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, factory: SessionFactory) -> None:
        super().__init__()
        self.factory = factory
        self._session: WriterSession | None = None
        self._state = KernelState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> KernelObservation:
        """`source` is a task's text, or `task` the name of a built-in one: no path of the server is opened for a client."""
        if not row.get("source") and not str(row.get("task", "")).startswith("builtin:"):
            raise UsageError("reset needs `source`, a task's text, or `task`, such as builtin:star_relu")
        self._session = session = self.factory.writer(self.factory.task_of(row))
        self._state = KernelState(episode_id=episode_id or uuid.uuid4().hex, task=session.task.name)
        return KernelObservation(messages=chat(session.messages))

    def step(self, action: KernelAction, timeout_s: float | None = None, **options: Any) -> KernelObservation:
        return asyncio.run(self.step_async(action, timeout_s))

    async def step_async(self, action: KernelAction, timeout_s: float | None = None, **options: Any) -> KernelObservation:
        session = self._session
        if session is None:
            raise UsageError("call reset before step")
        try:
            step = await asyncio.wait_for(session.submit_async(action.text), timeout_s)
        except (JudgeError, TimeoutError) as error:
            told = str(error) or f"no verdict within {timeout_s:g} s"
            return KernelObservation(messages=chat(session.messages), feedback=told, metadata={"judged": 0.0})
        self._state.step_count += 1
        self._state.score = session.score
        return KernelObservation(
            messages=[] if step.done else chat(session.messages),
            feedback=step.feedback,
            reward=step.reward,
            done=step.done,
            metadata={**session.facts(), "score": session.score},
        )

    @property
    def state(self) -> KernelState:
        return self._state


class KernelEnvClient(EnvClient[KernelAction, KernelObservation, KernelState]):
    """`async with KernelEnvClient(base_url=...) as env: await env.reset(task="builtin:star_relu")`."""

    def _step_payload(self, action: KernelAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[KernelObservation]:
        seen = payload.get("observation", {})
        told = {key: payload.get(key) for key in ("reward", "metadata") if payload.get(key) is not None}
        observation = KernelObservation(**{**seen, **told, "done": bool(payload.get("done"))})
        return StepResult(observation, observation.reward, observation.done, observation.metadata)

    def _parse_state(self, payload: dict[str, Any]) -> KernelState:
        return KernelState(**payload)


def openenv_app(settings: EnvironmentSettings | SessionFactory | None = None) -> FastAPI:
    factory = factory_for(settings or EnvironmentSettings())
    return create_app(
        lambda: OpenEnvKernels(factory), KernelAction, KernelObservation, "bottega_kernels", SESSIONS, state_cls=KernelState
    )


if __name__ == "__main__":
    uvicorn.run(openenv_app(), host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
