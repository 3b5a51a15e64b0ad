"""Events: everything that happens in a run, typed, one JSON object a line. Reports, displays and resume read these and nothing else.

An event's `key` names what it finished; a run that is started again takes what has a key from its log instead of doing it twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from bottega.core.draft import Draft
from bottega.core.skill import Skill
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict


@dataclass(frozen=True)
class RunStarted:
    command: str
    settings: dict[str, Any]
    fingerprint: dict[str, Any]
    at: float = 0.0
    key: str = ""


@dataclass(frozen=True)
class EpisodeStarted:
    key: str
    episode: str
    task_id: str
    task_name: str
    family: str
    source: str
    device: str
    library_version: int
    retrieved: tuple[str, ...]
    at: float = 0.0


@dataclass(frozen=True)
class Selected:
    """One selection scheme; the empty one has no turn."""

    key: str
    episode: str
    scheme: int
    names: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    unknown: int = 0
    turn: Turn | None = None
    at: float = 0.0


@dataclass(frozen=True)
class Drafted:
    """What was written by rule before the model was asked, or why nothing was. Each draft that is judged is also a `Wrote`."""

    key: str
    episode: str
    author: str
    drafts: tuple[Draft, ...] = ()
    refused: str = ""
    seconds: float = 0.0
    at: float = 0.0

    @property
    def text(self) -> str:
        if self.refused or not self.drafts:
            return ": ".join(filter(None, ("no draft", self.author, self.refused)))
        return f"{self.author} wrote {len(self.drafts)} draft{'s' if len(self.drafts) > 1 else ''}"


@dataclass(frozen=True)
class Wrote:
    """One kernel before it is judged: an answer of the writer, or a draft. Its turn holds the kernel, or the fault why there is none."""

    key: str
    episode: str
    node: str
    parent: str | None
    scheme: int
    turn: Turn
    seconds: float = 0.0
    at: float = 0.0
    author: str = ""
    """Who wrote a draft; empty for the run's model."""
    step: str = ""
    """The key of the agent's step that had it judged, which has its tokens; empty where the turn is an answer of its own."""


@dataclass(frozen=True)
class Judged:
    key: str
    episode: str
    node: str
    verdict: Verdict
    same_as: str = ""
    """The node whose kernel was the same text; it was not judged twice."""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True)
class Criticised:
    """What the critic said of a kernel: the one thing to change next."""

    key: str
    episode: str
    node: str
    mode: str
    """`correct` for a kernel that was not accepted, `speed` for one that was."""
    turn: Turn
    advice: str = ""
    """Empty where the answer could not be used."""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True)
class AgentStepped:
    """One answer of an agent with tools, before its calls are carried out."""

    key: str
    episode: str
    line: str
    """The agent's conversation; its kernels are named after it."""
    turn: Turn
    calls: tuple[dict[str, str], ...] = ()
    """As they were asked: id, name and arguments."""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True)
class ToolRan:
    """What a tool returned that cannot be computed again from the calls before it."""

    key: str
    episode: str
    line: str
    tool: str
    result: str
    changed: dict[str, str] = field(default_factory=dict)
    """Files of the agent's directory that it left, by path."""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True)
class Bred:
    """How a child of an evolution is asked for, before it is written: by which operator, from which parents, with which instruction."""

    key: str
    episode: str
    node: str
    island: int
    generation: int
    operator: str
    parents: tuple[str, ...] = ()
    instruction: int = 0
    """Its number in the population."""
    at: float = 0.0


@dataclass(frozen=True)
class Reworded:
    """A new instruction in the population of an evolution, in place of the one with the least credit."""

    key: str
    episode: str
    number: int
    text: str
    mutated_from: int
    replaces: int
    by: str
    """`model`, or `list` where the next one of the fixed list was taken."""
    turn: Turn | None = None
    at: float = 0.0


@dataclass(frozen=True)
class Tuned:
    """What the measuring mode found about a kernel's knobs: every setting that was tried, and the source with the best one."""

    key: str
    episode: str
    node: str
    device: str
    shape: str
    """Of the task's inputs; with device and structure it says for what a time holds."""
    structure: str
    """A hash of the kernel without the values of its knobs."""
    tried: tuple[dict[str, Any], ...] = ()
    """Of each its place, label, milliseconds (None where it is not right), whether the time was remembered, and where that is known the function
    and the sizes of its place."""
    dtype: str = ""
    """What the task computes in."""
    base_ms: float | None = None
    chosen: tuple[str, ...] = ()
    """Labels of the best setting; none where the kernel's own values stay."""
    gain: float = 1.0
    """Of the best setting over the kernel's own values, measured again side by side."""
    source: str = ""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True)
class Planned:
    """Experiments that a scientist planned in one round, with what it expects of each."""

    key: str
    episode: str
    round: int
    turn: Turn | None = None
    experiments: tuple[dict[str, Any], ...] = ()
    """Of each the kernel that it is to be written as, base, reference, change, the predicted factor (None for none) and its novelty."""
    at: float = 0.0


@dataclass(frozen=True)
class Summarised:
    key: str
    episode: str
    turn: Turn
    proposals: tuple[Skill, ...] = ()
    refused: tuple[str, ...] = ()
    at: float = 0.0


@dataclass(frozen=True)
class EpisodeEnded:
    key: str
    episode: str
    ended: str
    best: str = ""
    """The best node; empty when no kernel was right and faster."""
    at: float = 0.0


@dataclass(frozen=True)
class Credited:
    """What one step of training learns from: for every answer that counts, its trace, turn, role, reward and advantage."""

    key: str
    step: int
    credits: tuple[dict[str, Any], ...]
    at: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Figures of one step of training, or of an evaluation after it."""

    key: str
    step: int
    """Counted from 1: after so many updates."""
    values: dict[str, float]
    note: str = ""
    """What a reader must know: why the step was left out, say."""
    at: float = 0.0


@dataclass(frozen=True)
class Checkpointed:
    key: str
    step: int
    folder: str
    """Within the run's folder."""
    at: float = 0.0


@dataclass(frozen=True)
class RunEnded:
    ended: str
    facts: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    key: str = ""


Event = (
    RunStarted
    | EpisodeStarted
    | Drafted
    | Selected
    | Wrote
    | Judged
    | Criticised
    | Bred
    | Reworded
    | Tuned
    | Planned
    | AgentStepped
    | ToolRan
    | Summarised
    | EpisodeEnded
    | Credited
    | Measured
    | Checkpointed
    | RunEnded
)


def type_name(kind: type[Any]) -> str:
    """`run_started` of `RunStarted`: what a line of a log begins with."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


TYPES: dict[str, type[Any]] = {type_name(kind): kind for kind in Event.__args__}


def to_json(event: Event) -> dict[str, Any]:
    return {"type": type_name(type(event)), **{name: _plain(getattr(event, name)) for name in event.__dataclass_fields__}}


def from_json(data: dict[str, Any]) -> Event:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is no event of ours."""
    kind = TYPES[data["type"]]
    values = {name: value for name, value in data.items() if name != "type"}
    for name, value in values.items():
        if name == "turn" and value is not None:
            values[name] = Turn.from_json(value)
        elif name == "verdict":
            values[name] = Verdict.from_json(value)
        elif name == "proposals":
            values[name] = tuple(Skill.from_json(skill) for skill in value)
        elif name == "drafts":
            values[name] = tuple(Draft(**draft) for draft in value)
        elif isinstance(value, list):
            values[name] = tuple(value)
    event: Event = kind(**values)
    return event


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
