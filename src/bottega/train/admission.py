"""Admission of new cards in RL: which proposals of a step the gate tests, its decisions, and how admitted cards enter the run's library.

Proposals are proved in a library of their own beside the run's, refused ones with all their evidence; what passes is staged. Staged cards
lie in the checkpoint with the weights that earned them, and are written to the run's library only after that checkpoint is on the
disk. Whoever opens the run next finishes what a kill left undone, so there are never cards without weights or weights without cards.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bottega.backbone.client import Client
from bottega.backbone.reply import NoServerError
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.device import DeviceFacts
from bottega.core.errors import BottegaError, NoJudgeError
from bottega.core.event import Summarised
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.trial import GainInterval, Trial
from bottega.episodes.admission_sampler import AdmissionSampler
from bottega.episodes.context import BlockingJudge, seed_of
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.phases import Phases
from bottega.episodes.selecting import filter_for
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.conditions import holds
from bottega.skills.gate import Decision, Rules
from bottega.skills.library import Library, content_hash
from bottega.skills.proving import Proof, prove
from bottega.skills.retrieve import Filter
from bottega.skills.shipped import begin_library
from bottega.skills.similarity import ALIKE, similarity
from bottega.skills.upkeep import duplicates_of, unhelpful_cards
from bottega.skills.uses import Scheme, Use
from bottega.train.rewards.summary import summary_reward
from bottega.train.rollout import RlInputs, Rollouts
from bottega.train.settings import Config

CHANGE = "train"
"""The kind of the library's change that makes a step's cards visible."""


@dataclass(frozen=True)
class AdmittedCard:
    """A card that the gate let through, with what let it through."""

    skill: Skill
    reason: str
    trials: tuple[tuple[str, Trial], ...]


@dataclass(frozen=True)
class Staged:
    """What the library is to be told of the steps since the last checkpoint."""

    cards: tuple[AdmittedCard, ...] = ()
    uses: tuple[Use, ...] = ()

    def __add__(self, other: Staged) -> Staged:
        return Staged(self.cards + other.cards, self.uses + other.uses)

    def to_json(self) -> dict[str, Any]:
        return {
            "cards": [
                {
                    "skill": card.skill.to_json(),
                    "reason": card.reason,
                    "trials": [[key, trial.to_json()] for key, trial in card.trials],
                }
                for card in self.cards
            ],
            "uses": [asdict(use) for use in self.uses],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Staged:
        def card(found: dict[str, Any]) -> AdmittedCard:
            trials = tuple((key, Trial.from_json(trial)) for key, trial in found["trials"])
            return AdmittedCard(Skill.from_json(found["skill"]), found["reason"], trials)

        def use(found: dict[str, Any]) -> Use:
            schemes = tuple(Scheme(tuple(scheme["selected"]), tuple(scheme["worths"])) for scheme in found["schemes"])
            return Use(**{**found, "retrieved": tuple(found["retrieved"]), "schemes": schemes})

        return cls(tuple(map(card, data["cards"])), tuple(map(use, data["uses"])))


@dataclass(frozen=True)
class Admission:
    rewards: dict[str, float | None] = field(default_factory=dict)
    """For each summary, by the id of its trace; None where the gate did not come to its cards."""
    staged: Staged = field(default_factory=Staged)
    proposed: int = 0
    proved: int = 0
    admitted: int = 0
    known: int = 0
    """Proposals that say what a card of the library says already: worth nothing, and not tried."""
    undecided: tuple[str, ...] = ()
    """Proofs that could not be finished, one line each."""


def admit(
    config: Config, inputs: RlInputs, settings: EpisodeSettings, step: int, rollouts: Rollouts, journal: EpisodeJournal,
    library: Library | None, proofs: Library, client: Client, judge: BlockingJudge, phases: Phases | None = None,
) -> Admission:  # fmt: skip
    """Everything that the step's summaries propose, through the gate. All of one winning trace's before the next one's: a summary is
    compared with the others of its trace, and half of a comparison is none."""
    proposals: dict[str, list[str]] = {}
    homes: dict[str, tuple[Skill, Task]] = {}  # by text and task: the same advice may help one task and not another
    for episode, task in zip(rollouts.episodes, rollouts.tasks):
        for trace in episode.of("summarise"):
            found = journal.done(trace.id, Summarised)
            named = {f"{content_hash(skill)}/{task.id}": skill for skill in found.proposals} if found is not None else {}
            proposals[trace.id] = list(named)
            for key, skill in named.items():
                homes.setdefault(key, (skill, task))
    decisions: dict[str, Decision | None] = {}
    wanted: list[tuple[str, Skill, tuple[Task, ...]]] = []
    known = 0
    tried_tasks: set[str] = set()
    for key, (skill, task) in homes.items():
        twin = duplicates_of(library, skill, offered(task, settings, inputs.device)) if library is not None else []
        siblings = siblings_of(task, inputs.tasks, config.skills.siblings, applying(skill, inputs.device))
        if twin:
            known += 1
            decisions[key] = Decision("refuse", f"says what {twin[0].keep} says", GainInterval(1.0, 1.0, 1.0))
        elif siblings and (task.id in tried_tasks or len(tried_tasks) < config.skills.proofs):
            tried_tasks.add(task.id)
            wanted.append((key, skill, (task, *siblings)))
    names = proofs.add_many([skill for _, skill, _ in wanted], "rename", f"step {step}").names if wanted else []
    tried = [
        Proof(proofs.get(name), tasks, _rules(config), (), seed_of(config.data.seed, f"gate/{step}"), f"step {step}")
        for name, (_, _, tasks) in zip(names, wanted)
    ]
    undecided: list[str] = []
    if tried:
        found_all = _proved(config, inputs, settings, proofs, tried, client, judge, phases)
        for (key, skill, _), found_one in zip(wanted, found_all):
            decisions[key] = found_one if isinstance(found_one, Decision) else None
            if not isinstance(found_one, Decision):
                undecided.append(f"{skill.name}: {found_one}")
    rewards = {trace: _reward([decisions.get(key) for key in keys], config) for trace, keys in proposals.items()}
    passed = [
        (decision, proof, skill)
        for (key, skill, _), proof in zip(wanted, tried)
        if (decision := decisions[key]) is not None and decision.step == "admit"
    ]
    staged = Staged() if config.ablations.frozen_library else _staged(passed, proofs)
    return Admission(rewards, staged, sum(map(len, proposals.values())), len(wanted), len(passed), known, tuple(undecided))


def offered(task: Task, settings: EpisodeSettings, device: DeviceFacts) -> Filter:
    """Cards that a selector of the task may be shown, or was until they retired. What only another one says, of another language or for other
    sizes, nobody is told here: a proposal that says it is new."""
    living = (SkillState.ADMITTED, SkillState.PROPOSED) if settings.unproved else (SkillState.ADMITTED,)
    return filter_for(task, settings, device, (*living, SkillState.RETIRED))


def applying(skill: Skill, device: DeviceFacts) -> Callable[[Task], bool]:
    """Whether a card would be offered for a task: where its typed conditions do not hold it is not tried either."""
    return lambda task: not skill.applies_to or holds(skill.applies_to, shared_tracer().workload(task, device))


def siblings_of(task: Task, tasks: Sequence[Task], count: int, fits: Callable[[Task], bool] = lambda task: True) -> list[Task]:
    """The fitting tasks that share most tags with it, the nearest behind it where several do."""
    place = next((number for number, other in enumerate(tasks) if other.id == task.id), 0)

    def rank(number: int) -> tuple[int, int]:
        return -len({*task.tags} & {*tasks[number].tags}), (number - place) % len(tasks)

    others = {tasks[number].id: tasks[number] for number in sorted(range(len(tasks)), key=rank) if tasks[number].id != task.id}
    return list(itertools.islice(filter(fits, others.values()), count))


def _rules(config: Config) -> Rules:
    skills = config.skills
    return Rules(
        threshold=skills.threshold, alpha=skills.alpha, cap=skills.cap, least_rounds=skills.least_rounds, most_rounds=skills.rounds,
        baseline=config.reward.baseline,
    )  # fmt: skip


def _proved(
    config: Config, inputs: RlInputs, settings: EpisodeSettings, proofs: Library, tried: Sequence[Proof], client: Client,
    judge: BlockingJudge, phases: Phases | None,
) -> list[Decision | BottegaError]:  # fmt: skip
    """Side by side; attempts that were finished before a kill are taken from the proofs' own library."""
    attempts = ThreadPoolExecutor(config.skills.at_once * len(tried))
    sampler = AdmissionSampler(
        client, judge, inputs.prompts, inputs.device, inputs.language, proofs.folder / "kernels",
        temperature=settings.temperature, max_tokens=settings.max_tokens, stop=settings.stop, baseline=settings.baseline,
        judged_on=inputs.judge_device, shared=phases,
    )  # fmt: skip

    def one(proof: Proof) -> Decision | BottegaError:
        try:
            return prove(proofs, proof, sampler.attempt, sampler.confirm, run=attempts.map)
        except (NoServerError, NoJudgeError):
            raise
        except BottegaError as error:
            return error

    # The sampler last: of a proof that broke off, attempts may still be under way, and wait for their answers.
    with sampler, attempts, ThreadPoolExecutor(len(tried)) as side_by_side:
        return list(side_by_side.map(one, tried))


def _reward(found: Sequence[Decision | None], config: Config) -> float | None:
    """0 for an answer without a card. None while a card of it is untried, unless another one passed."""
    decided = [decision for decision in found if decision is not None]
    worth = summary_reward(decided, config.reward.summary_cap, config.reward.bound)
    return None if len(decided) < len(found) and not worth else worth


def _staged(passed: Sequence[tuple[Decision, Proof, Skill]], proofs: Library) -> Staged:
    """The best card of each task, with its evidence; of cards that say nearly the same, the better one."""
    found: list[AdmittedCard] = []
    tasks: set[str] = set()
    for decision, proof, skill in sorted(passed, key=lambda each: -each[0].gain.point):
        own = proof.tasks[0].id
        if own in tasks or any(similarity(skill, other.skill) >= ALIKE for other in found):
            continue
        tasks.add(own)
        keys = [f"{proof.id}/{task.id}" for task in proof.tasks]
        rows = [(key, proofs.store.row("SELECT body FROM trials WHERE key = ?", key)) for key in keys]
        trials = tuple((key, Trial.from_json(json.loads(row["body"]))) for key, row in rows if row is not None)
        found.append(AdmittedCard(skill, decision.reason, trials))
    return Staged(tuple(found))


@dataclass(frozen=True)
class Applied:
    admitted: tuple[str, ...]
    retired: tuple[str, ...]
    cards: int
    """Admitted ones, in all."""


def apply(library: Library, staged: Staged, step: int) -> Applied:
    """Make a checkpoint's cards visible, once: called again it changes nothing. Cards that do not help retire in the same change."""
    note = f"step {step}"
    if _change(library, note) is None:
        for use in staged.uses:
            library.uses.record(use)
        cards = [card.skill for card in staged.cards]
        names = library.add_many(cards, "rename", f"staged in {note}").names if cards else []
        unhelpful = unhelpful_cards(library)
        with library.store.change(CHANGE, note) as change:
            for name, card in zip(names, staged.cards):
                library.evidence.record(change, [(key, replace(trial, skill=name)) for key, trial in card.trials])
                library.move_within(change, name, SkillState.ADMITTED, card.reason)
            for name, reason in unhelpful:
                library.move_within(change, name, SkillState.RETIRED, reason)
    version = _change(library, note)
    rows = library.store.rows("SELECT name, state FROM cards WHERE valid_from = ? ORDER BY row", version)
    by_state = {state: tuple(row["name"] for row in rows if row["state"] == state) for state in ("admitted", "retired")}
    return Applied(by_state["admitted"], by_state["retired"], library.counts()[SkillState.ADMITTED])


def _change(library: Library, note: str) -> int | None:
    row = library.store.row("SELECT version FROM changes WHERE kind = ? AND note = ?", CHANGE, note)
    return int(row["version"]) if row is not None else None


def open_run_library(source: str, folder: Path) -> Library:
    """The run's own copy of a library. One that a kill left half copied is copied anew."""
    if folder.exists():
        library = Library(folder)
        if library.store.row("SELECT 1 FROM changes WHERE kind = 'begin'") is not None:
            return library
        library.close()
        shutil.rmtree(folder)
    library = Library(folder)
    if source == "starter":
        begin_library(library)
    elif source != "empty":
        with Library(Path(source), create=False) as other:
            library.add_many([card for card in other.cards() if card.state is not SkillState.RETIRED], "skip", f"from {source}")
    with library.store.change("begin", f"{sum(library.counts().values())} cards from {source}"):
        pass
    return library
