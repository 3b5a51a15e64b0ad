"""What an episode is asked to do. Plain values: they go into the log, and equal settings resume the same run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from bottega.agents.answers.pipeline import TRAINING, AnswerPolicy, policy_for
from bottega.core.errors import UsageError
from bottega.episodes.stopping import Stopping
from bottega.episodes.strategies import STRATEGIES
from bottega.judge.baselines import with_eager
from bottega.languages import LANGUAGES, default_language

StrategyName = Annotated[str, AfterValidator(STRATEGIES.validate)]


@dataclass(frozen=True)
class EpisodeSettings:
    device: str = "cpu"
    language: str = field(default_factory=lambda: default_language("cpu").name)
    baselines: tuple[str, ...] = ("eager",)
    """The first is the one that counts."""
    precision: str = "fp32"
    quick: bool = True
    strategy: str = "serial"
    turns: int = 4
    kept: int = 0
    """Of a long line: kernels that the next one sees, the last and the best of those before it; 0 shows all that the prompt holds."""
    samples: int = 2
    """Rollouts of each scheme; width in a beam; islands in evolution; kernels of one round in a tree and of a scientist."""
    schemes: int = 1
    """Selections sampled from the selector, beside the empty one."""
    empty_scheme: bool = True
    """Whether kernels are also written with no skill. Training always does; a user with one shot may not want to."""
    even_groups: bool = False
    """Whether a task for which no skill is offered gets as many rollouts as others, all without one. Training compares within a group."""
    skills: int = 3
    """Cards in one selection, at most."""
    retrieved: int = 20
    unproved: bool = False
    """Whether proposed cards are offered beside admitted ones: a new library has no others. Training offers what is proved."""
    select: Literal["selector", "bm25", "none"] = "selector"
    """Who picks: the backbone, the retrieval's order alone, or nobody."""
    branch: int = 2
    """Children of one node in a beam, and of one island in evolution; the most of a node in a tree, other than its root."""
    knobs: int = 0
    """Settings of a right kernel's knobs that are measured, with evolve of each one before it is compared, else of the best one at the end; 0 leaves
    kernels as they were written."""
    exploration: float = 1.0
    """Of a tree search: how much a kernel that was seldom built upon counts beside one that was fast."""
    instructions: Literal["list", "model"] = "list"
    """Who varies the instructions of an evolution: a fixed list, or the model, and then the list where its answer cannot be used."""
    steps: int = 200
    """Answers of an agent in one line, at most; its budget of kernels, tokens or seconds may end it sooner."""
    skill_files: str = ""
    """A folder whose SKILL.md files an agent finds in its directory as they are."""
    temperature: float = 1.0
    likeliest_first: bool = False
    """Whether the first kernel of each scheme is sampled without chance, whatever the temperature of the others."""
    max_tokens: int = 2048
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    style: Literal["terse", "compact", "full"] = "compact"
    drafts: int = 0
    """Kernels that are written by rule before the model writes, where somebody is there to draw them. They count as the run's."""
    answers: AnswerPolicy = TRAINING
    """What happens to the writer's answers before they are judged, and how often one is sampled again."""
    summaries: int = 0
    """Summaries sampled from a winning trace; 0 proposes nothing."""
    margin: float = 1.2
    """A later turn must beat the first by this factor, and the baseline too, before there is something to summarise."""
    seed: int = 0
    stopping: Stopping = field(default_factory=Stopping)

    def __post_init__(self) -> None:
        STRATEGIES.check(self.strategy)
        LANGUAGES.check(self.language)
        for name in ("turns", "samples", "branch", "steps", "max_tokens"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature must be 0 or a positive number, not {self.temperature:g}")
        for name in ("drafts", "knobs", "kept", "schemes", "skills", "retrieved", "summaries"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not (math.isfinite(self.exploration) and self.exploration >= 0):
            raise UsageError(f"exploration must be 0 or a positive number, not {self.exploration:g}")
        if self.instructions not in ("list", "model"):
            raise UsageError(f"instructions are varied by list or model, not {self.instructions!r}")
        if self.kept and self.strategy != "serial":
            raise UsageError(
                f"kept is for lines of strategy=serial: strategy={self.strategy} chooses otherwise what a kernel sees"
            )
        if self.schemes == 0 and not self.empty_scheme:
            raise UsageError("no scheme is left: allow the empty one or ask for at least one selection")

    @property
    def baseline(self) -> str:
        return self.baselines[0]

    @property
    def judged_against(self) -> tuple[str, ...]:
        """Of the last verdicts: eager is measured too, so that a kernel which beats only that is known."""
        return with_eager(self.baselines)

    def to_json(self) -> dict[str, Any]:
        """`redraws` is the older name of the resamples, which run directories keep; `answers` is there only for a policy that follows from them, and
        stop strings and `kept` where there are any."""
        usual = self.answers == policy_for(self.answers.resamples)
        settings = {name: value for name, value in asdict(self).items() if name not in ("stop", "kept") or value}
        return {**settings, "redraws": self.answers.resamples, "answers": None if usual else settings["answers"]}
