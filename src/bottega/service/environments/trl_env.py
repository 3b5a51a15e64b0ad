"""TRL: `GRPOTrainer(environment_factory=...)`. The model judges its kernels by calling a tool, as often as the session has turns.

Tested against trl 1.16.0: a GRPOTrainer with a tiny model runs rollouts through it. The factory is picklable, which the asynchronous trainer
needs; its rollout side has no GPU, so there `judge` is the address of a `bottega serve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from bottega.agents.answers.fences import fenced
from bottega.core.errors import JudgeError
from bottega.service.environments.factory import SessionFactory, factory_for
from bottega.service.environments.session import WriterSession
from bottega.service.environments.settings import EnvironmentSettings

TOOL = (
    "Do not print the file: call the tool judge_kernel with it, read what the judge found, and call it again with a faster one."
)


class KernelEnvironment:
    """One rollout at a time. Its public methods are what TRL looks for: `reset`, `get_reward`, and the tools."""

    def __init__(self, settings: EnvironmentSettings | SessionFactory | None = None) -> None:
        self._settings = settings
        self._session: WriterSession | None = None
        self._lost = False

    def reset(self, **row: Any) -> str:
        factory = factory_for(self._settings)
        self._session, self._lost = factory.writer(factory.task_of(row)), False
        return "\n\n".join([*(message.content for message in self._session.messages), TOOL])

    async def judge_kernel(self, source: str) -> str:
        """Judges a kernel: is it right, is it honest, and how fast is it against PyTorch?

        Args:
            source: The whole Python file, which defines the class ModelNew.

        Returns:
            What the judge found, with a measured speedup or a diagnosis.
        """
        session = self._session
        if session is None or session.done:
            return "No more kernels are judged for this task."
        try:
            step = await session.submit_async(fenced(source, "python"))
        except JudgeError as error:
            self._lost = True
            return f"This kernel has no verdict, and that is not its fault: {error}"
        return step.feedback

    def get_reward(self) -> float | None:
        """None, which TRL leaves out of the advantage, where the judge could say nothing. A rollout without a kernel earns what a wrong one does."""
        if self._session is None:
            return None
        if not self._session.nodes:
            return None if self._lost else self._session.terms.reward(None)
        return self._session.score


def environment_factory(settings: EnvironmentSettings | None = None) -> Callable[[], KernelEnvironment]:
    return partial(KernelEnvironment, settings or EnvironmentSettings())


def dataset_rows(references: Iterable[str], settings: EnvironmentSettings | None = None) -> list[dict[str, Any]]:
    """Rows for `datasets.Dataset.from_list`. The prompt itself comes from `reset`."""
    rows = factory_for(settings or EnvironmentSettings()).rows(references)
    return [{**row, "prompt": [{"role": "user", "content": ""}]} for row in rows]
