"""Sessions: one role's part of an episode, turn by turn, for whoever samples the answers. `submit(text)` gives feedback, reward, done.

A trainer that keeps a conversation appends the feedback to it; one that asks anew at each turn takes `messages`, which is the prompt that our own
training builds. A reward of `None` means that nobody can say yet, or that the kernel could not be judged: it is not a reward of 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bottega.agents import selector, summariser, writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import read
from bottega.agents.earlier_turn import earlier_turn_of, turn_values
from bottega.agents.prompts import Prompts
from bottega.agents.wording import precision_rule
from bottega.backbone.chat import Message
from bottega.compiler.callgraph import CallGraph
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.context import Judges
from bottega.episodes.node import SearchNode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.writing import writer_input
from bottega.languages import candidate_from
from bottega.skills.gate import Decision
from bottega.skills.rerank import selection
from bottega.train.returns import Kind, returns
from bottega.train.rewards.selection import turn_rewards
from bottega.train.rewards.summary import summary_reward
from bottega.train.rewards.verdict_reader import Reward

AGAIN = "Write a faster kernel. Answer in the same form as before, with the whole file."


class SessionStep(NamedTuple):
    feedback: str
    """For the next turn: what the judge found."""
    reward: float | None
    done: bool


@dataclass(frozen=True)
class SessionTerms:
    """What all sessions of an environment share."""

    settings: EpisodeSettings
    prompts: Prompts
    device: DeviceFacts
    reward: Reward
    returns: Kind = "max"
    gamma: float = 1.0


@dataclass
class WriterSession:
    """Several kernels for one task, each judged. Where the judge fails, `JudgeError` is raised and the session stands as it was: submit again."""

    task: Task
    judge: Judges
    terms: SessionTerms
    skills: tuple[Skill, ...] = ()
    callgraph: CallGraph | None = None
    nodes: list[SearchNode] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        """The prompt of the next turn, with the kernels so far in it."""
        settings = self.terms.settings
        asked = writer_input(self.task, settings, self.terms.device, self.skills, self.nodes, self.callgraph)
        return writer.messages(asked, self.terms.prompts)

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(node.turn for node in self.nodes)

    @property
    def rewards(self) -> list[float | None]:
        return turn_rewards(self.turns, self.terms.reward)

    @property
    def score(self) -> float | None:
        """What the whole session earned; None where no kernel of it could be judged."""
        known = [reward for reward in self.rewards if reward is not None]
        return returns(known, self.terms.returns, self.terms.gamma)[0] if known else None

    @property
    def done(self) -> bool:
        return len(self.nodes) >= self.terms.settings.turns or self._unusable

    @property
    def _unusable(self) -> bool:
        last = self.nodes[-1].verdict if self.nodes else None
        return last is not None and last.outcome is Outcome.INVALID_TASK

    def submit(self, text: str) -> SessionStep:
        """One answer of the model, read and judged. Blocks until there is a verdict."""
        turn = self._read(text)
        return self._took(turn, None if turn.fault else self.judge.judge(self.task, candidate_from(turn.source)))

    async def submit_async(self, text: str) -> SessionStep:
        turn = self._read(text)
        return self._took(turn, None if turn.fault else await self.judge.judge_async(self.task, candidate_from(turn.source)))

    def facts(self) -> dict[str, Any]:
        """Plain values for a trainer's log: what became of the last kernel, and of the best."""
        baseline = self.terms.settings.baseline
        last = self.nodes[-1] if self.nodes else None
        verdict = last.verdict if last is not None else None
        return {
            "task": self.task.name,
            "turns": len(self.nodes),
            "outcome": verdict.outcome.value if verdict is not None else "unusable_answer" if last is not None else "",
            "correct": float(verdict is not None and verdict.outcome.accepted),
            "speedup": _number(verdict.speedup[baseline].point) if verdict is not None and baseline in verdict.speedup else 0.0,
            "best": max((node.score(baseline) for node in self.nodes), default=0.0),
            "faults": sum(bool(turn.fault) for turn in self.turns),
            "judged": float(self.score is not None),
        }

    def _read(self, text: str) -> Turn:
        if self.done:
            raise UsageError("the session is over: begin another one")
        settings = self.terms.settings
        answer = read(text, AnswerContext(self.task.source, settings.language, settings.style), settings.answers)
        return Turn("write", text, fault=answer.fault, source=answer.source, summary=answer.summary, repairs=answer.repairs)

    def _took(self, turn: Turn, verdict: Verdict | None) -> SessionStep:
        parent = self.nodes[-1].id if self.nodes else None
        self.nodes.append(SearchNode(f"t{len(self.nodes)}", parent, 0, replace(turn, verdict=verdict)))
        return SessionStep(self._feedback(), self.rewards[-1], self.done)

    def _feedback(self) -> str:
        """Outcome, measured interval, diagnosis, and the precision that counts, which a model is not to guess."""
        settings, last = self.terms.settings, earlier_turn_of(self.turns[-1], self.terms.settings.baseline)
        found = self.terms.prompts.piece("write", "turn", turn_values(last, f"Attempt {len(self.nodes)}", source=False))
        if self.done:
            return found
        return f"{found}\n\n{precision_rule(settings.precision)}\n\n{AGAIN}"


@dataclass
class SelectorSession:
    """One choice of cards. Its reward is known when kernels were written with them: `credit`."""

    task: Task
    terms: SessionTerms
    asked: selector.SelectorInput
    offered: tuple[Skill, ...]
    chosen: tuple[Skill, ...] | None = None
    """None before the answer; a selector that fails selects nothing."""

    @property
    def messages(self) -> list[Message]:
        return selector.messages(self.asked, self.terms.prompts)

    def submit(self, text: str) -> SessionStep:
        if self.chosen is not None:
            raise UsageError("the session is over: begin another one")
        self.chosen, fault = (), ""
        try:
            self.chosen = selection(selector.parse(text, self.asked.k), self.offered, self.asked.k).skills
        except AnswerError as error:
            fault = str(error)
        return SessionStep(fault or f"chosen: {', '.join(skill.name for skill in self.chosen) or 'none'}", None, True)

    def credit(self, scores: Iterable[float | None]) -> float | None:
        """The mean score of the sessions that wrote with this choice."""
        known = [score for score in scores if score is not None]
        return math.fsum(known) / len(known) if known else None


@dataclass
class SummariserSession:
    """Cards from one clear advance. Their reward is what the admission gate measured: `credit`."""

    task: Task
    terms: SessionTerms
    asked: summariser.SummariserInput
    proposals: summariser.Proposals | None = None

    @property
    def messages(self) -> list[Message]:
        return summariser.messages(self.asked, self.terms.prompts)

    def submit(self, text: str) -> SessionStep:
        """An answer without a usable card has earned nothing, and that is known at once."""
        if self.proposals is not None:
            raise UsageError("the session is over: begin another one")
        self.proposals = summariser.Proposals()
        try:
            self.proposals = summariser.parse(text, self.asked)
        except AnswerError as error:
            return SessionStep(str(error), 0.0, True)
        names = ", ".join(skill.name for skill in self.proposals.skills) or "none"
        lines = [f"proposed: {names}", *self.proposals.refused]
        return SessionStep("\n".join(lines), None if self.proposals.skills else 0.0, True)

    def credit(self, decisions: Sequence[Decision]) -> float | None:
        """From the gate's decisions about the cards; None while cards are there and none was tried."""
        if self.proposals is not None and self.proposals.skills and not decisions:
            return None
        return summary_reward(decisions)


def _number(value: float) -> float:
    return value if math.isfinite(value) else 0.0
