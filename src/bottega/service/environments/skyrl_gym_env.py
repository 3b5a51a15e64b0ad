"""SkyRL: a text environment of `skyrl-gym`, one for each trajectory.

Tested against skyrl-gym 0.4.0: made by its registry and stepped through real verdicts. SkyRL adds up the rewards of a trajectory's steps, so a
step is paid what it adds to the session's score, and the sum is that score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from bottega.core.errors import JudgeError
from bottega.service.environments.factory import SessionFactory, chat, factory_for
from bottega.service.environments.settings import EnvironmentSettings

ID = "bottega_kernels"


class KernelTextEnv(BaseTextEnv):
    """`env_config` holds the environment's settings; `extras` the row, with `source` or `task`."""

    def __init__(
        self, env_config: Mapping[str, Any] | SessionFactory | None = None, extras: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        factory = factory_for(_own(env_config))
        self.session = factory.writer(factory.task_of(extras or {}))
        self.max_turns = factory.settings.turns

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """The prompt is ours: it needs the device and the skills, which a data set does not know."""
        return chat(self.session.messages), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        before = self.session.score
        try:
            step = self.session.submit(action)
        except JudgeError as error:
            return BaseTextEnvStepOutput(observations=[], reward=0.0, done=True, metadata={"judged": 0.0, "error": str(error)})
        added = (self.session.score or 0.0) - (before or 0.0)
        said = [] if step.done else [{"role": "user", "content": step.feedback}]
        return BaseTextEnvStepOutput(observations=said, reward=added, done=step.done, metadata=self.session.facts())

    def get_metrics(self) -> dict[str, Any]:
        return {name: value for name, value in self.session.facts().items() if isinstance(value, int | float)}


def register() -> None:
    """Call it where SkyRL's workers start; then `environment.env_class=bottega_kernels`."""
    if ID not in skyrl_gym.registry:
        skyrl_gym.register(id=ID, entry_point=f"{__name__}:{KernelTextEnv.__name__}")


def _own(values: Mapping[str, Any] | SessionFactory | None) -> Mapping[str, Any] | SessionFactory:
    """SkyRL's configuration of an environment may hold keys of its own."""
    if values is None or isinstance(values, SessionFactory):
        return values or {}
    return {str(key): values[key] for key in values if key in EnvironmentSettings.model_fields}
