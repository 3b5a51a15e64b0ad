"""Settings of SFT and RL runs, by section: validated when they are read, frozen afterwards.

No torch here: a report may read a run's settings on a machine that could not train.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bottega.core.setting_kinds import Count, Positive, Share, Style, Words, Workers, by_comma
from bottega.core.settings import Section
from bottega.judge.settings import LONGEST_TIMEOUT
from bottega.languages import LANGUAGES
from bottega.train.advantages import ADVANTAGES
from bottega.train.returns import Kind
from bottega.train.rewards import REWARDS, takes_cap

LanguageName = Annotated[str, AfterValidator(LANGUAGES.validate)]
RoleName = Literal["select", "write", "summarise"]
Roles = Annotated[tuple[RoleName, ...], BeforeValidator(by_comma)]
LEAST_HIGH_WHEN_STALE = 1.05


class LoraSettings(Section):
    rank: Positive = 16
    """Rank of the adapter's matrices."""
    alpha: Positive = 32
    """The adapter's output is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the adapter's inputs that is dropped in training."""


class ModelSettings(Section):
    name: str = "embedded"
    """`embedded`, `embedded:base` without the training that comes along, `embedded:FILE.difference`, a folder, or a hub name."""
    device: str | None = None
    """cpu, cuda or cuda:N; a GPU if there is one and this is left out."""
    compute: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the trainer computes in; auto is bf16 on a GPU and fp32 on a CPU. Weights that are trained are kept in fp32."""
    lora: LoraSettings | None = None
    """An adapter instead of all weights."""
    adapter: str | None = None
    """A folder with an adapter to go on with."""
    freeze: Words = ()
    """Parameters that stay as they are, by a piece of their names: `embed_tokens` keeps the embedding, and the head that is tied to it."""
    thinking: bool | None = None
    """Thinking on or off, by the chat template's `enable_thinking`; if left out the template decides."""
    template: dict[str, bool | int | str] | None = None
    """Other arguments of the chat template, such as `{reasoning_effort = "low"}`; one that it does not know is refused."""
    context: Positive | None = None
    """Tokens of a row that the model takes, at most; the model's own limit if left out."""
    compile: bool | None = None
    """Compile the forward pass; on a GPU if left out."""
    recompute: bool = False
    """Compute activations twice instead of keeping them: less memory, a third more time."""


class ShardingSettings(Section):
    """How a model is spread over GPUs, one process each; `torchrun --nproc-per-node N -m bottega train …` starts N of them."""

    ranks: Positive | None = None
    """Processes that the run needs at least, for its memory; fewer are refused. If left out, as many as there are."""
    offload: bool = False
    """Keep weights, gradients and moments in the memory of the CPU, and bring each layer to the GPU for its turn. Needs torchrun."""


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
    roles: Roles | None = None
    """Learn these roles' rows only, in SFT; in RL `ablations.roles`."""
    tasks: Words = ("builtin",)
    """Where RL takes its tasks from."""
    validation: Words = ()
    """Tasks that RL is validated on every `log.eval_every` steps, and never trained on: answered without chance, one rollout each."""
    seed: int = 0
    """Of the order of rows and tasks, and of sampling."""

    @model_validator(mode="after")
    def _fits(self) -> DataSettings:
        if self.longest > self.pack_tokens:
            raise ValueError(f"longest ({self.longest}) must fit into pack_tokens ({self.pack_tokens})")
        return self


class RolloutSettings(Section):
    tasks: Positive = 16
    """Tasks of a step."""
    schemes: Count = 3
    """Selections of skills for a task, beside the empty one."""
    samples: Positive = 4
    """Rollouts of each scheme."""
    turns: Positive = 3
    """Kernels of a rollout, each seeing the ones before it."""
    strategy: Literal["serial", "agent"] = "serial"
    """How a rollout comes to its kernels: one answer each, or as an agent with tools, whose every answer is learned from."""
    steps: Positive = 150
    """Answers of an agent in a rollout, at most."""
    summaries: Count = 2
    """Summaries drawn from a winning trace."""
    skills: Count = 3
    """Cards in a selection, at most."""
    retrieved: Positive = 20
    """Cards that a selector is shown."""
    margin: Annotated[float, Field(gt=1)] = 1.2
    """A later turn must beat the first by this factor before there is something to summarise."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Of sampling answers, and of their log-probs."""
    max_tokens: Positive = 2048
    """Tokens of one answer."""
    engine: Literal["own", "vllm", "server"] = "own"
    """Who draws answers: our own engine, vLLM in this process, or `servers`."""
    servers: Words = ()
    """Addresses of servers that draw, `http://HOST:8000`; one that is lost is left out until it is back."""
    sync: Literal["adapter", "disk", "ipc", "nccl"] | None = None
    """How servers get weights; if left out `adapter` under LoRA, else `nccl`."""
    vllm_memory: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the GPU that vLLM in this process may take while it draws."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    thinking_tokens: Positive | None = None
    """Tokens of an answer that may be thoughts; a model that still thinks then is made to answer. If left out, only `max_tokens` limits them."""
    language: LanguageName | None = None
    """What kernels are written in; the default of the device if left out."""
    style: Style | None = None
    """Of prompts; if left out the one that the model was trained on, else compact. Full is for large models."""
    judge_workers: Workers = "auto"
    """Kernels judged side by side; `auto` is what the cores carry."""
    timeout: Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT)] = 120.0
    """Seconds that one kernel may take, from building to the last check. A step ends no sooner than its slowest kernel."""
    slots: Positive | None = None
    """Answers that are drawn side by side."""
    cache_tokens: Positive | None = None
    """Tokens that the decoder's cache holds; what memory allows if left out."""
    updates: Positive = 1
    """Passes over each batch."""
    staleness: Count = 0
    """Updates that the weights of a step's answers may lag behind: above 0 the next steps are drawn and judged while one is learned from."""
    judge_device: str | None = None
    """Where kernels are judged; if left out the CPU for C++, else the model's device. A GPU of its own measures more quietly."""
    replaced: Count = 1
    """How often tasks whose answers all earned the same, from which nothing can be learned, are replaced by others in a step."""
    band: tuple[Share, Share] | None = None
    """A task comes again only while the share of its kernels that were right, last time, lies between these, such as [0.1, 0.9]."""

    @model_validator(mode="after")
    def _names_servers(self) -> RolloutSettings:
        if (self.engine == "server") != bool(self.servers):
            raise ValueError('servers and engine = "server" go together: give both or none')
        if self.sync is not None and self.engine != "server":
            raise ValueError('sync is for engine = "server": leave it out')
        return self

    @model_validator(mode="after")
    def _summaries_need_turns(self) -> RolloutSettings:
        if self.summaries and self.turns < 2:
            raise ValueError(
                "with one turn no kernel can beat an earlier one, so nothing is ever summarised: set turns to 2 or more, or summaries to 0"
            )
        if self.band is not None and (self.staleness or self.band[0] >= self.band[1]):
            raise ValueError(
                "band takes a lower share and a higher one, and needs staleness 0: it asks what the step before came to"
            )
        return self


class SkillSettings(Section):
    """The library of an RL run, and the gate that new cards must pass."""

    library: str = "starter"
    """`starter`, `empty`, or a library's folder. Its cards are copied into the run, which changes nothing but its copy."""
    unproved: bool = True
    """Offer proposed cards beside admitted ones: of a starter set hardly anything is proved, and what is never offered is never chosen."""
    proofs: Count = 2
    """Winning traces whose proposals the gate tries in a step, at most, each with all of them, since they are compared with each other."""
    siblings: Positive = 6
    """Tasks beside its own that a card is tried on."""
    least_rounds: Positive = 2
    """Pairs on each task before a proof may end."""
    rounds: Positive = 24
    """Pairs on each task, at most. A card without a gain is mostly refused after a few."""
    threshold: Annotated[float, Field(ge=1)] = 1.05
    """The gain's lower bound must be above this factor."""
    cap: Annotated[float, Field(gt=1)] = 3.0
    """Speedups count up to here at the gate: where kernels are faster without a card already, none can help."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """How often a card without a gain may be admitted."""
    at_once: Positive = 4
    """Attempts of one proof that are made side by side."""

    @model_validator(mode="after")
    def _in_order(self) -> SkillSettings:
        if self.least_rounds > self.rounds:
            raise ValueError(f"least_rounds ({self.least_rounds}) must not be above rounds ({self.rounds})")
        if self.threshold >= self.cap:
            raise ValueError(f"threshold ({self.threshold:g}) must be below cap ({self.cap:g})")
        return self


class RewardSettings(Section):
    name: Annotated[str, AfterValidator(REWARDS.validate)] = "davinci"
    """Which reward a verdict gives."""
    cap: Annotated[float, Field(gt=0)] | None = None
    """Speedups count up to here; if left out the one that comes with the name."""
    bound: Literal["point", "low"] = "point"
    """The speedup that counts: its point estimate, or the lower end of its interval."""
    baseline: Literal["eager", "compile", "autotune", "best"] = "eager"
    """What speedups are against."""
    returns: Kind = "sum"
    """A turn's return is the discounted sum of the rewards from it on, their discounted maximum, or the discounted last of them."""
    gamma: Share = 1.0
    """Discount of later turns."""
    unmeasured: Share = 1.0
    """Coverage of a right kernel that could not be measured."""
    summary_cap: Annotated[float, Field(gt=1)] = 3.0
    """A card's gain counts up to this factor."""

    @model_validator(mode="after")
    def _has_a_cap(self) -> RewardSettings:
        if self.cap is not None and not takes_cap(self.name):
            raise ValueError(f"the reward {self.name} has no cap; leave it out")
        return self


class RoleWeights(Section):
    write: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the writer's tokens in the loss."""
    select: Annotated[float, Field(ge=0)] = 0.3
    """Weight of the selector's."""
    summarise: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the summariser's."""


class AdvantageSettings(Section):
    name: Annotated[str, AfterValidator(ADVANTAGES.validate)] = "trloo"
    """How returns of a group become advantages."""
    alone: bool = False
    """A group of one gets its return as advantage, as in the published code, and not 0."""
    even: bool = False
    """Divide a task's advantages by their mean size."""
    weights: RoleWeights = Field(default_factory=RoleWeights)


class CriticSettings(Section):
    """Of PPO: what tells advantages of tokens where `advantage.name` is `gae`."""

    lr: Annotated[float, Field(gt=0, lt=1)] = 2e-5
    """Learning rate of the critic, a copy of the model with one number for a head; schedule and clipping are the optimiser's."""
    trust: Share = 0.95
    """GAE's lambda: how far rewards are looked for beyond the next token, before the critic's word is taken."""
    updates: Positive = 1
    """Passes of the critic over each batch."""
    whiten: bool = True
    """Give the advantages of a step's tokens a mean of 0 and a deviation of 1."""


class StageSettings(Section):
    """How an RL run begins: so many steps of each kind, in this order, and RL after them."""

    single_turn: Count = 0
    """Steps with one kernel a rollout."""
    own_answers: Count = 0
    """Steps that imitate the run's own answers that were right, in place of reinforcing: rejection-sampling fine-tuning."""
    critic: Count = 0
    """Steps in which the critic learns and the policy does not."""


class CoverageSettings(Section):
    on: bool = True
    """Leave out kernels that do too little of the work themselves."""
    threshold: Share = 0.3
    """Share of the work up to which a kernel is always left out."""
    width: Share = 0.1
    """How far above the threshold all are kept; between, by chance."""


class MismatchSettings(Section):
    on: bool = True
    """Leave out traces of which decoder and trainer disagree."""
    low: Annotated[float, Field(gt=0, le=1)] = 0.999
    """Smallest mean ratio of the trainer's to the decoder's probabilities."""
    high: Annotated[float, Field(ge=1)] = 1.001
    """Largest mean ratio."""
    veto: Annotated[float, Field(ge=0, lt=1)] = 1e-4
    """A trace with one token of a smaller ratio is left out."""


class RejectionSettings(Section):
    coverage: CoverageSettings = Field(default_factory=CoverageSettings)
    mismatch: MismatchSettings = Field(default_factory=MismatchSettings)
    roles: Roles = ("write",)
    """Whose traces the mismatch rule looks at."""


class LossSettings(Section):
    clip_low: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """The ratio to the old policy is clipped below 1 minus this."""
    clip_high: Annotated[float, Field(ge=0)] = 0.28
    """The ratio is clipped above 1 plus this."""
    truncate: Annotated[float, Field(gt=0)] | None = 2.0
    """Largest importance weight for the mismatch of decoder and trainer; none leaves the weight out."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the divergence from the reference model."""
    normalise: Literal["answers", "tokens"] = "answers"
    """Divide by answers times `constant`, or by the weight of the tokens that count, which is what SFT does."""
    constant: Annotated[float, Field(gt=0)] = 1000.0
    """Tokens that an answer counts as, where the loss is divided by answers."""


class OptimiserSettings(Section):
    lr: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Learning rate of AdamW."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    """Decay of the two moments."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of the weights, in each step."""
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    """Keeps the division by the second moment finite."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of a gradient."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Of the rate after the warmup."""
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
    """Steps after which SFT looks at held-out rows, and RL at the tasks of `data.validation`."""
    eval_rows: Positive = 256
    """Held-out rows that are looked at, at most."""
    tensorboard: bool = True
    """Where it is installed."""
    wandb: str | None = None
    """A project's name. `WANDB_MODE=offline` keeps it on this machine."""
    stop_on_alarm: bool = False
    """End the run with a checkpoint when an alarm for collapse is raised."""


class Ablations(Section):
    skills: bool = True
    """Whether skills are offered."""
    selector: Literal["backbone", "bm25"] = "backbone"
    """Who picks skills: the backbone, or the retrieval's order."""
    frozen_library: bool = False
    """Admit no new card."""
    roles: Roles = ("select", "write", "summarise")
    """Which roles are trained; the others act, and learn nothing."""
    shuffled_advantages: bool = False
    """A control that must not learn."""


class Config(Section):
    model: ModelSettings = Field(default_factory=ModelSettings)
    sharding: ShardingSettings = Field(default_factory=ShardingSettings)
    data: DataSettings = Field(default_factory=DataSettings)
    rollout: RolloutSettings = Field(default_factory=RolloutSettings)
    skills: SkillSettings = Field(default_factory=SkillSettings)
    reward: RewardSettings = Field(default_factory=RewardSettings)
    advantage: AdvantageSettings = Field(default_factory=AdvantageSettings)
    critic: CriticSettings = Field(default_factory=CriticSettings)
    stages: StageSettings = Field(default_factory=StageSettings)
    rejection: RejectionSettings = Field(default_factory=RejectionSettings)
    loss: LossSettings = Field(default_factory=LossSettings)
    optimiser: OptimiserSettings = Field(default_factory=OptimiserSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    ablations: Ablations = Field(default_factory=Ablations)

    @property
    def has_critic(self) -> bool:
        return self.advantage.name == "gae"

    @model_validator(mode="after")
    def _critic_fits(self) -> Config:
        if self.has_critic and self.advantage.even:
            raise ValueError("advantage.even divides a group's advantages, and gae has none: set critic.whiten instead")
        if self.has_critic and (self.sharding.offload or (self.sharding.ranks or 1) > 1):
            raise ValueError("advantage.name = gae has its critic in one process: leave sharding out, or take trloo")
        if self.stages.critic and not self.has_critic:
            raise ValueError("stages.critic trains a critic, and there is none: set advantage.name=gae, or leave it out")
        return self

    @model_validator(mode="after")
    def _has_an_adapter_to_send(self) -> Config:
        if self.rollout.sync == "adapter" and not (self.model.lora or self.model.adapter):
            raise ValueError(
                "rollout.sync = adapter sends an adapter, and there is none: set model.lora, or sync by disk, ipc or nccl"
            )
        return self

    @model_validator(mode="after")
    def _stale_traces_are_kept(self) -> Config:
        mismatch = self.rejection.mismatch
        if self.rollout.staleness and mismatch.on and mismatch.high < LEAST_HIGH_WHEN_STALE:
            raise ValueError(
                f"rollout.staleness = {self.rollout.staleness} draws by older weights, and rejection.mismatch.high = {mismatch.high:g} would "
                "drop nearly all of it: set rejection.mismatch.low=0.5 rejection.mismatch.high=2, or rejection.mismatch.on=false; "
                "loss.truncate corrects the rest"
            )
        return self
