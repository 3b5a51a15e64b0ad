"""Everything that a learning run can be told, section by section: checked when it is read, plain and frozen afterwards.

No torch here: a report may read a run's settings on a machine that could not train.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bottega.judge.settings import LONGEST_TIMEOUT

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
RoleName = Literal["select", "write", "summarise"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LoraSettings(Section):
    rank: Positive = 16
    alpha: Positive = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class ModelSettings(Section):
    name: str = "embedded"
    """`embedded`, `embedded:base` without the training that comes along, `embedded:FILE.difference`, a folder, or a hub name."""
    device: str | None = None
    """cpu, cuda or cuda:N; none takes a GPU if there is one."""
    compute: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the trainer computes in; auto is bf16 on a GPU and fp32 on a CPU. Weights that are trained are kept in fp32."""
    lora: LoraSettings | None = None
    """An adapter instead of all weights."""
    adapter: str | None = None
    """A folder with an adapter to go on with."""
    freeze: tuple[str, ...] = ()
    """Parameters that stay as they are, by a piece of their names: `embed_tokens` keeps the embedding, and the head that is tied to it."""
    context: Positive | None = None
    compile: bool | None = None
    """Compile the forward pass; none does so on a GPU."""
    recompute: bool = False
    """Compute activations twice instead of keeping them: less memory, a third more time."""


class DataSettings(Section):
    longest: Positive = 2048
    """Tokens of a row, at most; longer ones are left out and counted."""
    pack_tokens: Positive = 16384
    """Tokens of one forward pass."""
    batch_tokens: Positive = 65536
    """Tokens of one step of SFT, in as many passes as that takes. A step of RL learns from all that its rollouts came to."""
    batch_rows: Positive | None = None
    """Rows of one step of SFT instead."""
    epochs: Positive = 1
    """Of SFT."""
    steps: Positive | None = None
    """End after so many, whatever the epochs say; the length of an RL run."""
    held_out: Share = 0.02
    """Share of the rows of SFT that is kept for evaluation, where they do not say themselves."""
    roles: tuple[RoleName, ...] | None = None
    """Learn these roles' rows only, in SFT; in RL `ablations.roles`."""
    tasks: tuple[str, ...] = ("builtin",)
    """Where RL takes its tasks from."""
    seed: int = 0

    @model_validator(mode="after")
    def _fits(self) -> DataSettings:
        if self.longest > self.pack_tokens:
            raise ValueError(f"longest ({self.longest}) must fit into pack_tokens ({self.pack_tokens})")
        return self


class RolloutSettings(Section):
    tasks: Positive = 16
    """Of a step."""
    schemes: Count = 3
    """Selections of skills for a task, beside the empty one."""
    samples: Positive = 4
    """Rollouts of each scheme."""
    turns: Positive = 3
    summaries: Count = 2
    """Summaries drawn from a winning trace."""
    skills: Count = 3
    """Cards in a selection, at most."""
    retrieved: Positive = 20
    margin: Annotated[float, Field(gt=1)] = 1.2
    """A later turn must beat the first by this factor before there is something to summarise."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens: Positive = 2048
    language: Literal["cpp", "triton", "cuda"] | None = None
    style: Literal["terse", "compact", "full"] = "compact"
    judge_workers: Positive | Literal["auto"] = "auto"
    """Kernels judged side by side; `auto` is what the cores carry."""
    timeout: Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT)] = 120.0
    """Seconds that one kernel may take, from building to the last check. A step ends no sooner than its slowest kernel."""
    slots: Positive | None = None
    """Answers that are drawn side by side."""
    cache_tokens: Positive | None = None
    updates: Positive = 1
    """Passes over each batch."""
    judge_device: str | None = None
    """Where kernels are judged; none is the CPU for C++, else the model's device. A GPU of its own measures more quietly."""


class SkillSettings(Section):
    """The library of an RL run, and the gate that new cards must pass."""

    library: str = "starter"
    """`starter`, `empty`, or a library's folder. Its cards are copied into the run, which changes nothing but its copy."""
    unproved: bool = False
    """Offer proposed cards beside admitted ones: of a starter set nothing is proved yet."""
    proofs: Count = 4
    """Proposals that the gate tries in a step, at most; what it did not come to earns nothing, which is not 0."""
    least_rounds: Positive = 4
    rounds: Positive = 8
    """Pairs on each task, at most; a proof takes four times as many answers."""
    threshold: Annotated[float, Field(ge=1, lt=3)] = 1.05
    """The gain's lower bound must be above this factor."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """How often a card without a gain may be admitted."""
    at_once: Positive = 4
    """Attempts of one proof that are made side by side."""

    @model_validator(mode="after")
    def _in_order(self) -> SkillSettings:
        if self.least_rounds > self.rounds:
            raise ValueError(f"least_rounds ({self.least_rounds}) must not be above rounds ({self.rounds})")
        return self


class RewardSettings(Section):
    name: Literal["davinci", "drkernel", "kevin", "milestones"] = "davinci"
    cap: Annotated[float, Field(gt=0)] | None = None
    """Speedups count up to here; none takes what comes with the name."""
    bound: Literal["point", "low"] = "point"
    baseline: Literal["eager", "compile", "autotune", "best"] = "eager"
    returns: Literal["sum", "max"] = "sum"
    gamma: Share = 1.0
    unmeasured: Share = 1.0
    """Coverage of a right kernel that could not be measured."""
    summary_cap: Annotated[float, Field(gt=1)] = 3.0


class RoleWeights(Section):
    write: Annotated[float, Field(ge=0)] = 1.0
    select: Annotated[float, Field(ge=0)] = 0.3
    summarise: Annotated[float, Field(ge=0)] = 0.5


class AdvantageSettings(Section):
    name: Literal["trloo", "grpo", "rloo"] = "trloo"
    alone: bool = False
    """A group of one gets its return as advantage, as in the published code, and not 0."""
    even: bool = False
    """Divide a task's advantages by their mean size."""
    weights: RoleWeights = Field(default_factory=RoleWeights)


class CoverageSettings(Section):
    on: bool = True
    threshold: Share = 0.3
    width: Share = 0.1


class MismatchSettings(Section):
    on: bool = True
    low: Annotated[float, Field(gt=0, le=1)] = 0.999
    high: Annotated[float, Field(ge=1)] = 1.001
    veto: Annotated[float, Field(ge=0, lt=1)] = 1e-4


class RejectionSettings(Section):
    coverage: CoverageSettings = Field(default_factory=CoverageSettings)
    mismatch: MismatchSettings = Field(default_factory=MismatchSettings)
    roles: tuple[RoleName, ...] = ("write",)
    """Whose traces the mismatch rule looks at."""


class LossSettings(Section):
    clip_low: Annotated[float, Field(ge=0, lt=1)] = 0.2
    clip_high: Annotated[float, Field(ge=0)] = 0.28
    truncate: Annotated[float, Field(gt=0)] | None = 2.0
    """Largest importance weight for the mismatch of decoder and trainer; none leaves the weight out."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the divergence from the reference model."""
    normalise: Literal["answers", "tokens"] = "answers"
    """Divide by answers times `constant`, or by the weight of the tokens that count, which is what SFT does."""
    constant: Annotated[float, Field(gt=0)] = 1000.0


class OptimiserSettings(Section):
    lr: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of a gradient."""
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: Count = 0
    """Steps in which the rate rises from nothing."""
    least: Share = 0.1
    """Share of the rate at the end of a cosine."""
    bad_steps: Positive = 5
    """So many steps in a row that are no number end the run."""


class CheckpointSettings(Section):
    every: Positive = 100
    """Steps."""
    keep: Positive = 2
    """So many; older ones are removed."""
    step_logs: Literal["needed", "all"] = "needed"
    """Which steps' own logs an RL run keeps: those that a kept checkpoint may need to go on, or all."""
    export: Literal["float32", "bfloat16"] = "float32"
    """How the finished model is written."""


class LogSettings(Section):
    eval_every: Positive = 100
    """Steps of SFT after which held-out rows are looked at."""
    eval_rows: Positive = 256
    """Held-out rows that are looked at, at most."""
    tensorboard: bool = True
    """Where it is installed."""
    wandb: str | None = None
    """A project's name. `WANDB_MODE=offline` keeps it on this machine."""
    stop_on_alarm: bool = False


class Ablations(Section):
    skills: bool = True
    selector: Literal["backbone", "bm25"] = "backbone"
    frozen_library: bool = False
    roles: tuple[RoleName, ...] = ("select", "write", "summarise")
    """Which roles are trained; the others act, and learn nothing."""
    shuffled_advantages: bool = False
    """A control that must not learn."""


class Config(Section):
    model: ModelSettings = Field(default_factory=ModelSettings)
    data: DataSettings = Field(default_factory=DataSettings)
    rollout: RolloutSettings = Field(default_factory=RolloutSettings)
    skills: SkillSettings = Field(default_factory=SkillSettings)
    reward: RewardSettings = Field(default_factory=RewardSettings)
    advantage: AdvantageSettings = Field(default_factory=AdvantageSettings)
    rejection: RejectionSettings = Field(default_factory=RejectionSettings)
    loss: LossSettings = Field(default_factory=LossSettings)
    optimiser: OptimiserSettings = Field(default_factory=OptimiserSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    ablations: Ablations = Field(default_factory=Ablations)
