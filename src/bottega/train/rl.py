"""The RL loop, top to bottom: one backbone, three roles, one update a step.

    library snapshot → selection schemes → rollouts → judge → rewards → summaries → admission gate → advantages → one update
    → staged cards become visible with the weights that earned them

A step's answers, verdicts and proofs are in logs of their own before anything is learned from them. A run that was killed loads its last
checkpoint and walks the same steps again; what the logs hold is taken from there, so nothing is drawn or judged twice, and the same
numbers come out.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from bottega.backbone.client import TokenClient
from bottega.backbone.vllm import VllmBackbone
from bottega.core.episode import Episode
from bottega.core.errors import TrainingError
from bottega.core.event import Checkpointed, Credited, Event, Measured, RunEnded, RunStarted
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import use_of
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.phases import Phases, PhaseStatus, device_name, share_device
from bottega.judge.device_host import LOCAL
from bottega.skills.gate import Rules
from bottega.skills.library import Library
from bottega.train.admission import Admission, Staged, admit, apply, open_run_library
from bottega.train.alarms import alarms
from bottega.train.batch import TrainBatch, batch_of, credits_of, reward_of
from bottega.train.checkpoint import Checkpoints, export_model
from bottega.train.credit import statistics
from bottega.train.learner import Learner
from bottega.train.memory import require_memory
from bottega.train.metrics import Metrics, TrainingStarted, require_packages
from bottega.train.ranks import ALONE, Ranks, devices_here, require_ranks
from bottega.train.rewards.verdict_reader import VerdictReader
from bottega.train.rl_update import learn_batch
from bottega.train.rollout import (
    RlInputs,
    Rollouts,
    episode_settings,
    open_inputs,
    replacements,
    roll_out,
    shares_right,
    tasks_of_step,
    within_band,
)
from bottega.train.rollout_engine import open_engine
from bottega.train.rollout_metrics import rollout_metrics
from bottega.train.rollouts_ahead import RolloutsAhead, Wait
from bottega.train.run_directory import CHECKPOINTS, LIBRARY, MODEL, PROOFS, TOKENIZER, RunDirectory, require_no_run
from bottega.train.settings import Config
from bottega.train.stages import episode_settings_of, own_answers, stage_of
from bottega.train.stopwatch import BusyShares, Stopwatch, TimedClient, TimedJudge
from bottega.train.validation import is_due, validation_metrics, validation_settings

STEPS = 100
"""Of a run that does not say."""


@dataclass(frozen=True)
class Learning:
    """A step's rollouts and proofs are done; the update begins."""

    step: int


@dataclass(frozen=True)
class Validating:
    """Tasks that are never trained on are answered now."""

    version: int
    """Of the weights."""


RlEvent = Event | TrainingStarted | Learning | Validating | PhaseStatus
"""May be told from any thread."""


@dataclass(frozen=True)
class RlFinished:
    folder: Path
    step: int
    steps: int
    values: dict[str, float]
    """Of the last step."""
    stopped: str = ""
    """Why it ended before its last step; empty when it did not."""


def train(
    config: Config, folder: Path, *, resume: bool = False,
    inputs: Callable[[Config], AbstractContextManager[RlInputs]] = open_inputs,
    on_event: Callable[[RlEvent], None] = lambda event: None, stop: Callable[[], bool] = lambda: False, ranks: Ranks = ALONE,
) -> RlFinished:  # fmt: skip
    """On the rank that leads; the others `follow`. `stop` is asked after every step; a run that it ends is kept and can be resumed. Raises
    `BottegaError` for what cannot be done."""
    if not resume:
        require_no_run(folder)
    require_packages(config.log)
    require_ranks(config.sharding, ranks, "train")
    with ExitStack() as open_things:
        given = open_things.enter_context(inputs(config))  # first: a model or a task that cannot be had leaves no run behind
        journal = open_things.enter_context(EpisodeJournal(folder))
        RunDirectory(folder).begin("rl", config)
        given.loaded.tokenizer.inner.save_pretrained(folder / TOKENIZER)  # whoever reads the logs can read their tokens
        run = RlRun(config, journal, given, on_event, ranks)
        open_things.callback(run.close)
        begin = run.resume() if resume else 0
        if not any(isinstance(event, RunStarted) for event in journal.events):
            journal.write(RunStarted("bottega train", config.model_dump(mode="json"), given.fingerprint))
        journal.listeners.append(on_event)
        on_event(run.begun(begin))
        ahead = RolloutsAhead(run.roll, config.rollout.staleness, run.steps)
        open_things.callback(ahead.close, lambda rolled: rolled.log.close())
        with Metrics(journal, config.log) as metrics:
            for step in range(begin + 1, run.steps + 1):
                rolled = ahead.take(step)
                if rolled.validated is not None:
                    metrics.measured("eval", *rolled.validated)
                values, note = run.learn(rolled)
                metrics.measured("train", step, values, note)
                wrong = alarms([event.values for event in run.history() if event.step <= step])
                for told in wrong:
                    metrics.measured(f"alarm/{wrong.index(told)}", step, {}, told)
                ending = "asked to stop" if stop() else "; ".join(wrong) if config.log.stop_on_alarm else ""
                if ending or run.staged.cards or step == run.steps or step % config.checkpoint.every == 0:
                    metrics.measured("checkpoint", step, run.commit(step))
                if ending and step < run.steps:
                    run.export()
                    journal.write(RunEnded(ending, {"step": step}))
                    return RlFinished(folder, step, run.steps, values, ending)
            if run.inputs.validation:
                metrics.measured("eval", *run.validate(asyncio.run))
        run.export()
        last = run.history()[-1].values if run.history() else {}
        journal.write(RunEnded("all steps taken", {"steps": run.steps}))
    return RlFinished(folder, run.steps, run.steps, last)


@dataclass(frozen=True, eq=False)
class RolledStep:
    """A step that was drawn and judged, and not yet learned from."""

    number: int
    rollouts: Rollouts
    log: EpisodeJournal
    client: TimedClient
    judge: TimedJudge
    watch: Stopwatch
    validated: tuple[int, dict[str, float]] | None = None
    """The version of the weights that were validated before it, and what came out."""


@dataclass
class RlRun:
    """What stays from step to step: the weights, their optimiser, the library, and what waits for the next checkpoint."""

    config: Config
    journal: EpisodeJournal
    inputs: RlInputs
    on_event: Callable[[RlEvent], None]
    ranks: Ranks = ALONE
    staged: Staged = field(default_factory=Staged)

    def __post_init__(self) -> None:
        config, folder = self.config, self.journal.folder
        self.steps = config.data.steps or STEPS
        self.directory = RunDirectory(folder)
        self.settings = episode_settings(config, self.inputs)
        self.reward = reward_of(config)
        self.reading = VerdictReader(config.reward.baseline, config.reward.bound, config.reward.unmeasured)
        loaded = self.inputs.loaded
        require_memory(loaded.model.config, config, self.ranks, rollouts=config.rollout.engine == "own")
        self.learner = Learner.begin(
            config,
            loaded.model,
            self.ranks,
            temperature=config.rollout.temperature,
            reference=bool(config.loss.kl),
            apart=config.rollout.staleness > 0,
        )
        self.learned = 0
        """The last step that was learned from: the version of the newest weights."""
        self.shares: dict[str, float] = {}
        """Of each task that was drawn the share of its kernels that were right, last time."""
        self.validated = -1
        """The last version of the weights that was validated."""
        self.busy = BusyShares()
        self.backbone = open_engine(config, loaded, self.learner, folder)
        self.phases = self._turns()
        self.phases.hear = self.on_event
        self.keeping = Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep)
        self.library = open_run_library(config.skills.library, folder / LIBRARY) if config.ablations.skills else None
        self.proofs = Library(folder / PROOFS) if config.ablations.skills else None

    def _turns(self) -> Phases:
        """Who waits for whom where a device is shared. With rollouts ahead kernels are judged while the model learns, which may be where it does not
        draw: its answers come from servers, or another rank learns there. Where nothing is timed nobody waits."""
        if not self.inputs.timed:
            return Phases()
        host, judged = self.inputs.host, device_name(self.inputs.judge_device)
        phases = share_device(TokenClient(self.backbone), host)
        learns = devices_here(self.learner.policy.device)
        beside = any(host.is_here(each) for each in learns if host is not LOCAL or each == judged)
        if self.config.rollout.staleness and beside and phases.device != judged:
            return Phases(judged, draws=False)
        return phases

    # one step

    def roll(self, number: int, begun: Callable[[], None], wait: Wait) -> RolledStep:
        """Draw and judge a step's episodes, with the newest weights that there are."""
        watch = Stopwatch(self.busy)
        with watch.stage("weights"):
            self._show()
        begun()
        due = bool(self.inputs.validation) and is_due(self.backbone.policy_version, self.validated, self.config.log.eval_every)
        validated = self.validate(wait) if due else None
        client = TimedClient(TokenClient(self.backbone, self.config.rollout.thinking_tokens), watch)
        judge = TimedJudge(self.inputs.judge, watch)
        log = EpisodeJournal(self.directory.step(number))
        try:
            log.listeners.append(self.on_event)
            given = self.inputs
            context = EpisodeContext(client, judge, self.library, given.prompts, given.device, log, shared=self.phases)
            settings = episode_settings_of(self.settings, stage_of(self.config.stages, number))
            tasks = tasks_of_step(self.inputs.tasks, number, self.config.rollout.tasks, self.config.data.seed)
            band = self.config.rollout.band
            tasks = (
                within_band(given.tasks, tasks, self.shares, band, f"{self.config.data.seed}/{number}/band") if band else tasks
            )
            with watch.stage("rollout"):  # episodes overlap; on one device their answers and their verdicts take turns
                rollouts = wait(roll_out(context, tasks, settings, number))
                for again in range(self.config.rollout.replaced):
                    others = replacements(self.inputs.tasks, rollouts, self.reward, f"{self.config.data.seed}/{number}/{again}")
                    if others:
                        rollouts += wait(roll_out(context, others, settings, number, len(rollouts.tasks)))
        except BaseException:
            log.close()
            raise
        return RolledStep(number, rollouts, log, client, judge, watch, validated)

    def validate(self, wait: Wait) -> tuple[int, dict[str, float]]:
        """The version of the weights, and how they do on tasks that are never trained on."""
        self._show()
        version, given = self.backbone.policy_version, self.inputs
        with EpisodeJournal(self.directory.validation(version)) as log:
            log.listeners.append(self.on_event)
            self.on_event(Validating(version))
            client = TokenClient(self.backbone, self.config.rollout.thinking_tokens)
            context = EpisodeContext(client, given.judge, self.library, given.prompts, given.device, log, shared=self.phases)
            found = wait(roll_out(context, given.validation, validation_settings(self.settings), version))
        self.validated = version
        return version, validation_metrics(found.episodes, self.reward, self.reading)

    def learn(self, rolled: RolledStep) -> tuple[dict[str, float], str]:
        """A step's figures, and what a reader must know of it."""
        number, rollouts, watch = rolled.number, rolled.rollouts, rolled.watch
        with rolled.log as log:
            with watch.stage("gate"):
                admission = self._admit(number, rollouts, log, rolled.client, rolled.judge)
            credits = credits_of(self.config, rollouts.episodes, admission.rewards, number)
            if log.done("credits", Credited) is None:
                log.write(Credited("credits", number, tuple(asdict(credit) for credit in credits)))
        self.on_event(Learning(number))
        # Kernels of the next step may be timed meanwhile: on one device the trainer takes turns with them, as the decoder does.
        with self.phases.learning() if self.config.rollout.staleness else nullcontext():
            with watch.stage("training"), watch.trainer.work():
                if isinstance(self.backbone, VllmBackbone):
                    self.backbone.rest()
                batch = batch_of(self.config, self.learner, rollouts.episodes, credits, number)
                chosen = own_answers(rollouts.episodes, self.reward)
                learned, note = learn_batch(self.learner, batch, number, self.steps, chosen)
        self.learned = number
        self.shares |= shares_right(rollouts)
        self.staged += admission.staged + Staged(uses=self._uses(rollouts.episodes))
        values = {
            **rollout_metrics(rollouts.episodes, self.reward, self.reading),
            **statistics(credits),
            **learned,
            **_step_metrics(batch, admission, rollouts, watch),
            "staleness": float(number - 1 - _oldest_version(rollouts, number - 1)),
        }
        notes = [note, *rollouts.failed, *admission.undecided]
        notes += [f"{watch.lost} verdicts were lost with their judge"] if watch.lost else []
        return values, "; ".join(filter(None, notes))

    def _show(self) -> None:
        """Have answers drawn by the weights that were learned."""
        if self.backbone.policy_version < self.learned:
            self.backbone.weights_changed(self.learned, self.learner.show)

    def _admit(self, number: int, rollouts: Rollouts, log: EpisodeJournal, client: TimedClient, judge: TimedJudge) -> Admission:
        if self.proofs is None:
            return Admission()
        return admit(
            self.config,
            self.inputs,
            self.settings,
            number,
            rollouts,
            log,
            self.library,
            self.proofs,
            client,
            judge,
            self.phases,
        )

    def _uses(self, episodes: tuple[Episode, ...]) -> tuple[Any, ...]:
        """How the library's cards fared, for their statistics."""
        if self.library is None or self.config.ablations.frozen_library:
            return ()
        rules = Rules(baseline=self.config.reward.baseline)
        return tuple(use_of(episode, "train", rules) for episode in episodes if len(episode.schemes) > 1)

    # what is kept

    def commit(self, number: int) -> dict[str, float]:
        """The checkpoint first, with the staged cards in it; then the library. A kill in between is made good by `resume`."""
        watch = Stopwatch()
        with watch.stage("checkpoint"):
            state = {
                "step": number,
                "tasks": self.inputs.digest,
                "policy_version": self.learned,
                "library_version": self.library.version if self.library is not None else 0,
                "staged": self.staged.to_json(),
                "shares": self.shares,
            }
            place = self.keeping.save(number, self.learner, state)
            told = self._publish(self.staged, number)
        self.journal.write(Checkpointed(f"checkpointed/{number}", number, f"{CHECKPOINTS}/{place.name}"))
        if self.config.checkpoint.step_logs == "needed":
            self.directory.drop_steps(self.keeping.oldest())
        return {**told, "seconds": watch.stages["checkpoint"]}

    def _publish(self, staged: Staged, number: int) -> dict[str, float]:
        self.staged = Staged()
        if self.library is None:
            return {}
        done = apply(self.library, staged, number)
        told = {"admitted": len(done.admitted), "retired": len(done.retired), "cards": done.cards, "library": len(self.library)}
        return {name: float(count) for name, count in told.items()}

    def export(self) -> None:
        """The model as it is now, for whoever opens `local:RUN/model`; a run that goes on later writes it again."""
        tokenizer, dtype = self.inputs.loaded.tokenizer.inner, getattr(torch, self.config.checkpoint.export)
        export_model(self.learner.whole_model(), tokenizer, self.journal.folder / MODEL, dtype, self.inputs.prompts.style)

    def resume(self) -> int:
        """Load the last good checkpoint and finish what it began; how many steps are done."""
        saved = self.keeping.latest(self.learner)
        if saved is None:
            if any(isinstance(event, Checkpointed) for event in self.journal.events):  # early steps' logs are gone: no way back
                why = "; ".join(self.keeping.passed_over) or "there is none"
                raise TrainingError(f"{self.journal.folder / CHECKPOINTS}: no checkpoint can be used ({why}); begin a new run")
            return 0
        if saved.state.get("tasks") != self.inputs.digest:
            raise TrainingError(f"data.tasks names other tasks than when {self.journal.folder} began: resume needs the same")
        self.keeping.load(saved, self.learner)
        self.learned = saved.step
        self.shares = dict(saved.state.get("shares", {}))
        told = (event.step for event in self.journal.events if isinstance(event, Measured) and event.key.startswith("eval/"))
        self.validated = max((version for version in told if version <= saved.step), default=-1)
        published = self._publish(Staged.from_json(saved.state["staged"]), saved.step)
        if self.journal.done(f"checkpoint/{saved.step}", Measured) is None:
            self.journal.write(Measured(f"checkpoint/{saved.step}", saved.step, published, "finished after a restart"))
        return saved.step

    def history(self) -> list[Measured]:
        return [event for event in self.journal.events if isinstance(event, Measured) and event.key.startswith("train/")]

    def begun(self, step: int) -> TrainingStarted:
        tasks, unfit = len(self.inputs.tasks), self.inputs.problems
        why = f" ({len(unfit)} more cannot be used: {'; '.join(unfit[:3])}{'; …' * (len(unfit) > 3)})" if unfit else ""
        told = f"{tasks} task{'s' * (tasks != 1)}{why}"
        cards = len(self.library) if self.library is not None else 0
        what = f"{told}, decoder: {self.backbone.engine}; {cards} cards"
        past = tuple(event for event in self.journal.events if isinstance(event, Measured) and event.step <= step)
        return TrainingStarted(self.steps, step, self.inputs.loaded.name, *self.learner.sizes(), what, cards, past)

    def close(self) -> None:
        asyncio.run(self.backbone.close())
        for library in (self.library, self.proofs):
            if library is not None:
                library.close()


def _oldest_version(rollouts: Rollouts, newest: int) -> int:
    """Of the weights that drew a step's answers."""
    turns = (turn for episode in rollouts.episodes for trace in episode.traces for turn in trace.turns)
    return min((turn.policy_version for turn in turns if turn.policy_version is not None), default=newest)


def _step_metrics(batch: TrainBatch, admission: Admission, rollouts: Rollouts, watch: Stopwatch) -> dict[str, float]:
    cuda = torch.cuda.is_available()
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "dropped/coverage": batch.coverage.share,
        "dropped/mismatch": batch.mismatch.share,
        "dropped/too_long": float(batch.too_long),
        "rows": float(len(batch.rows)),
        "skills/proposed": float(admission.proposed),
        "skills/known": float(admission.known),
        "skills/proved": float(admission.proved),
        "skills/passed": float(admission.admitted),
        "episodes": float(len(rollouts.episodes)),
        "episodes/failed": float(len(rollouts.failed)),
        "memory_gib": peak / 2**30,
        **watch.figures(),
    }
