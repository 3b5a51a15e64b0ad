"""What a cold start is asked to be made of. Plain values: they go into the data card."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bottega.core.errors import UsageError
from bottega.data.step_choice import ALL, checked_steps
from bottega.languages import default_language


@dataclass(frozen=True)
class JudgeStage:
    """What is written and judged."""

    device: str = "cpu"
    languages: tuple[str, ...] = field(default_factory=lambda: (default_language("cpu").name,))
    seeds: tuple[int, ...] = (0,)
    workers: int = 2
    """Kernels judged side by side."""
    teachers: int = 2
    """Processes that teach."""
    teacher_timeout: float = 120.0
    """Seconds that a teacher may take for one task."""
    timeout: float = 60.0
    """Seconds of a kernel's own time."""
    baselines: tuple[str, ...] = ("eager",)
    precision: str = "fp32"
    mistakes: int = 3
    """Wrong variants of each kernel that is chosen for them; 0 for none."""
    proofs: int = 8
    """Cards that are put to the gate, for the summariser's examples; 0 for none."""
    rounds: int = 24
    """Pairs of attempts on each task of a proof, at most."""
    retry: bool = False
    """Whether what failed before is asked for again."""
    steps: str = ALL
    """Which kernels of a task are judged: all, the ends of its passes, or a number."""
    seconds: float = 0.0
    """After so long no further task is begun; 0 for never."""
    trusted: bool = False
    """Whether the trusted judge judges, which it does only for teachers that are programs of ours."""
    audit: float = 0.02
    """The share of its verdicts that the judge gives again."""

    def __post_init__(self) -> None:
        if not self.languages or not self.seeds:
            raise UsageError("give at least one language and one seed")
        if min(self.workers, self.teachers, self.rounds) < 1 or min(self.mistakes, self.proofs) < 0:
            raise UsageError("workers, teachers and rounds are at least 1; mistakes and proofs are not negative")
        if self.teacher_timeout <= 0:
            raise UsageError("a teacher needs more than 0 seconds")
        checked_steps(self.steps)
        if self.seconds < 0 or not 0 <= self.audit <= 1:
            raise UsageError("seconds are not negative, and the audited share lies between 0 and 1")

    @property
    def baseline(self) -> str:
        return self.baselines[0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DiversityCaps:
    """How many examples may share something. 0 sets no bound."""

    task: int = 4
    """Of one kind, for one task and language."""
    ops: int = 24
    """Of one role, for one combination of operators in one language."""
    technique: int = 0
    """Of one role, for one set of techniques; by itself an eighth of the role's examples, and at least 200."""
    structure: int = 16
    """Of one role, for kernels of one shape."""
    share: float = 0.6
    """Of all examples that one level, language, outcome or kind may have where there are others."""

    def __post_init__(self) -> None:
        if min(self.task, self.ops, self.technique, self.structure) < 0 or not 0 < self.share <= 1:
            raise UsageError("caps are not negative, and a share lies above 0 and is at most 1")


@dataclass(frozen=True)
class ExampleStage:
    """How examples are made of the judged records."""

    style: str = "compact"
    baseline: str = "eager"
    precision: str = "fp32"
    retrieved: int = 20
    """Cards that a selector is shown."""
    skills: int = 3
    """Cards in one selection, at most."""
    margin: float = 1.2
    """What a kernel must have gained before there is something to summarise."""
    max_tokens: int = 0
    """Of a whole example; 0 for any number."""
    concise: float = 1.0
    """The shortest kernel with this share of the best one's speed is the one to learn: a small model makes fewer mistakes in it."""
    unjudged: bool = False
    """A first attempt also of kernels that nobody judged, marked as such."""
    believed: bool = False
    """Summaries also of cards that the judge saw to be faster on one task and no gate has proved, marked as such."""
    held_out: float = 0.1
    """Share of operator combinations that training never sees."""
    salt: str = "bottega"
    """What the split is hashed with."""
    caps: DiversityCaps = DiversityCaps()
    filtered: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise UsageError("the held-out share lies between 0 and 1")
        if not 0 < self.concise <= 1:
            raise UsageError("concise is a share of the best speed: above 0, at most 1")
        if self.retrieved < 1 or self.skills < 1 or self.max_tokens < 0 or self.margin < 1:
            raise UsageError("retrieved and skills are at least 1, a margin too, and max tokens are not negative")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
