"""Settings of an environment: what its kernels are, who judges them, and what they earn.

Trainers hand their configuration over as plain values, so this is a pydantic model; equal settings share one judge in a process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from bottega.core.settings import Section
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.baselines import parse_baselines
from bottega.languages import choose_language
from bottega.train.returns import Kind
from bottega.train.rewards import REWARDS
from bottega.train.rewards.verdict_reader import Bound

Count = Annotated[int, Field(ge=0)]


class EnvironmentSettings(Section):
    device: str = "cpu"
    """Of the judge: cpu, cuda or cuda:N."""
    judge: str = ""
    """Address of a `bottega serve`; empty judges in this process. The token is that of BOTTEGA_TOKEN."""
    language: str | None = None
    """Of the kernels; the device's usual one if left out."""
    baseline: str = "eager"
    """What is to be beaten: eager, compile, autotune, best."""
    precision: str = "fp32"
    """fp32 (strict), or what kernel and baseline may both use: tf32, bf16, fp16."""
    quick: bool = True
    """Fewer input variants and timed rounds, as in our own training."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds of a candidate's own time."""

    turns: Annotated[int, Field(ge=1)] = 4
    """Kernels in one session, each told what the judge found of the ones before it."""
    reward: Annotated[str, AfterValidator(REWARDS.validate)] = "davinci"
    """davinci, drkernel, kevin, milestones, or module:Name."""
    cap: float | None = None
    """Speedup that a reward counts at most; the reward's own if left out."""
    bound: Bound = "point"
    """The point of the measured interval, or its lower end."""
    returns: Kind = "max"
    """A session's score from the rewards of its turns: the best of them, or their sum."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount of later turns in the score."""

    library: Path | None = None
    """A skill library; without one nobody is shown skills."""
    skills: Count = 3
    """Cards in a writer's prompt, at most."""
    retrieved: Count = 20
    """Cards that a selector chooses from."""
    proved_only: bool = False
    """Offer admitted cards only, not proposed ones."""
    margin: Annotated[float, Field(ge=1)] = 1.2
    """A later kernel must beat the first by this factor before there is something to summarise."""

    style: Literal["terse", "compact", "full"] = "compact"
    """Of prompts: full for large models, compact for small ones, terse for those that were trained on it."""

    def episode(self) -> EpisodeSettings:
        """The same as our own episodes have it. Nothing ends a session early: that would depend on the clock."""
        return EpisodeSettings(
            device=self.device,
            language=choose_language(self.language, self.device),
            baselines=parse_baselines(self.baseline),
            precision=self.precision,
            quick=self.quick,
            turns=self.turns,
            skills=self.skills,
            retrieved=self.retrieved,
            unproved=not self.proved_only,
            style=self.style,
            margin=self.margin,
            stopping=Stopping(roofline=0.0),
        )

    def judge_options(self) -> dict[str, Any]:
        return {
            "baselines": parse_baselines(self.baseline),
            "precision": self.precision,
            "quick": self.quick,
            "timeout": self.timeout,
        }
