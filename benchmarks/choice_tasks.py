"""The tasks of the choice sweep: drawn evenly over families and data types, each with the rule's answer and variants of it that differ in choices.

All of it is text that needs no GPU; the variants are kept as changes of the answer, so that the winners of several places can be put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from own_kernels import own_kernels

from bottega.compiler.answer_choices import AnswerChange, changed, changes_of, variants
from bottega.compiler.build_step import Refusal
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.library_compiler import LibraryCompiler
from bottega.compiler.link import linked
from bottega.compiler.strip import stripped
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import FAMILIES, synthesise
from bottega.tasks.tags import tags_of

DTYPES = ("float32", "bfloat16")
LONGEST_MS = 1.2
"""By the cost model. A lease is for many calls of many variants."""
LONGEST_ANSWER = 6000
"""Characters of an answer without what is linked; longer ones are no answers of a small model."""
FUSED = "structure"
CLASS = "class ModelNew"


@dataclass(frozen=True)
class SweepTask:
    """One line of the file that `write` makes."""

    id: str
    name: str
    source: str
    family: str
    dtype: str
    structure: str
    level: int
    operators: tuple[str, ...]
    origin: str
    answer: str
    """The rule's."""
    whole: str
    """The same with what is linked."""
    variants: tuple[AnswerChange, ...]
    fused: str = ""
    """Another answer, in which heavy operators are kernels of the answer's own with what follows them fused in; linked."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SweepTask:
        some = tuple(AnswerChange(one["place"], one["label"], tuple(map(tuple, one["spans"]))) for one in data["variants"])  # type: ignore[misc]
        return cls(**{**data, "operators": tuple(data["operators"]), "variants": some})

    @property
    def task(self) -> Task:
        return Task(self.source, self.name)

    def candidate(self, changes: Sequence[AnswerChange] = ()) -> Candidate:
        """Linking takes long and is done once: only the class differs."""
        own, new = (text[text.index(CLASS) :] for text in (self.answer, changed(self.answer, changes)))
        if self.whole.count(own) == 1:
            return Candidate(self.whole.replace(own, new), "triton", self.name)
        return Candidate(linked(changed(self.answer, changes), self.source), "triton", self.name)


def drawn(number: int, seed: int, most: int, wanted: Sequence[str] = FAMILIES) -> SweepTask | None:
    """Number `number` of the series: in turn of all families, and of one that is wanted. None where the compiler refuses or nothing can be
    chosen."""
    families = (wanted[number // 2 % len(wanted)],) if number % 2 or wanted != FAMILIES else ()
    levels = (3,) if families == ("blocks",) else (1, 2)
    try:
        made = synthesise(seed, number, "cuda", levels, families, low_precision=0.6)
        if made.dtype not in DTYPES or made.estimate_ms > LONGEST_MS:
            return None
        structure = (made.structure, made.level, made.operators)
        return built(made.task, made.family, made.dtype, *structure, f"synth:{seed}/{number}", most)
    except BottegaError:
        return None


def built(
    task: Task, family: str, dtype: str, structure: str, level: int, operators: tuple[str, ...], origin: str, most: int
) -> SweepTask | None:
    try:
        step = LibraryCompiler().build(task, "triton").steps[-1]
    except Refusal:
        return None
    answer = stripped(step.candidate.source, task.source)
    if len(answer) > LONGEST_ANSWER or CLASS not in answer:
        return None
    some = variants(changes_of(answer, recorded(task.source)), most)
    written = own_kernels(task.source)
    fused = linked(stripped(written, task.source), task.source) if written else ""
    if not some and not fused:
        return None
    whole = linked(answer, task.source)
    facts = (family, dtype, structure, level, operators, origin)
    return SweepTask(task.id, task.name, task.source, *facts, answer, whole, tuple(some), fused)


def builtin(most: int) -> Iterator[SweepTask]:
    for task in load_tasks(["builtin"], size="gpu").tasks:
        tags = tags_of(task.source, task.level or 1)
        dtype = next((tag[6:] for tag in tags if tag.startswith("dtype:") and "float" in tag), "float32")
        family = next((tag for tag in tags if ":" not in tag), "")
        made = built(
            task,
            f"builtin {family}",
            dtype,
            "builtin",
            task.level or 1,
            tuple(t for t in tags if ":" not in t),
            task.label,
            most,
        )
        if made is not None:
            yield made


def series(
    known: Sequence[SweepTask], count: int, seed: int, most: int, processes: int, wanted: Sequence[str] = FAMILIES
) -> Iterator[SweepTask]:
    """New tasks until there are `count`, no more of a family and data type than its share, unless others have none."""
    share = -(-count // (len(wanted) * len(DTYPES)))
    have, ids = Counter((one.family, one.dtype) for one in known), {one.id for one in known}
    number = max((int(one.origin.split("/")[-1]) for one in known if one.origin.startswith("synth:")), default=-1) + 1
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        waiting: dict[Any, int] = {}
        while sum(have.values()) < count:
            while len(waiting) < 2 * processes:
                waiting[pool.submit(drawn, number, seed, most, wanted)] = number
                number += 1
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                begun = waiting.pop(future)
                made = None if future.exception() else future.result()
                allowed = share * (1 + begun // (6 * count))
                if made is not None and made.id not in ids and have[made.family, made.dtype] < allowed:
                    have[made.family, made.dtype] += 1
                    ids.add(made.id)
                    yield made
