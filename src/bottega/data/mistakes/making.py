"""Making mistakes: which of them a kernel allows, and a few of those, drawn by the kernel's own text so that they are always the same."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.data.mistakes.mistake import APPLIES, Mistake, read_mistakes
from bottega.data.mistakes.table import KERNEL, MODULE
from bottega.data.records import Mutant
from bottega.languages import language_named

_PARAMETER = re.compile(
    r"self\.(\w+)\s*=\s*(?:nn\.|torch\.nn\.)?(?:Parameter|Linear|Conv\w+|LayerNorm|BatchNorm\w+|GroupNorm|Embedding)\("
)


def _renamed_parameter(source: str, draw: random.Random) -> str | None:
    names = sorted(set(_PARAMETER.findall(source)))
    if not names:
        return None
    name = draw.choice(names)
    return re.sub(rf"\bself\.{name}\b", f"self.{name}_param", source)


_IN_KERNELS = read_mistakes(KERNEL)
_RENAMED = Mistake("parameter_renamed", APPLIES["everywhere"], "Parameters have the original's names.", (_renamed_parameter,))
MISTAKES: tuple[Mistake, ...] = (*_IN_KERNELS, *read_mistakes(MODULE), _RENAMED)
TORCH_DOES_IT = "torch_does_it"
SUBTLE = frozenset(mistake.name for mistake in _IN_KERNELS)
"""Mistakes in a kernel, beside those of the module around it: they need the diagnosis to be found."""


@dataclass(frozen=True)
class MadeMistake:
    name: str
    cure: str
    source: str


def mistakes_in(source: str, language: str, task: Task | None = None) -> list[MadeMistake]:
    """Every mistake that this kernel allows, one of each."""
    made = []
    for mistake in MISTAKES:
        if mistake.applies(language_named(language)):
            draw = random.Random(hashlib.sha256(f"{mistake.name}\0{source}".encode(errors="replace")).digest())
            changed = mistake.change(source, draw)
            if changed is not None and changed != source:
                made.append(MadeMistake(mistake.name, mistake.cure, changed))
    original = torch_does_it(task) if task is not None else None
    if original is not None:
        made.append(MadeMistake(TORCH_DOES_IT, "An own kernel does the work.", original))
    return made


def mutants_of(task: Task, candidate: Candidate, most: int) -> list[Mutant]:
    """A few mistakes of one kernel, two in the kernel for each one around it where there are as many."""
    allowed = mistakes_in(candidate.source, candidate.language, task)
    ordered = sorted(allowed, key=lambda made: hashlib.sha256(f"{candidate.id}/{made.name}".encode()).digest())
    inside = [made for made in ordered if made.name in SUBTLE]
    around = [made for made in ordered if made.name not in SUBTLE]
    order: list[MadeMistake] = []
    while (inside or around) and len(order) < most:
        source = around if (len(order) % 3 == 2 and around) or not inside else inside
        order.append(source.pop(0))
    return [
        Mutant(task.id, Candidate(made.source, candidate.language, made.name, candidate.id), made.name, made.cure)
        for made in order
    ]


def torch_does_it(task: Task) -> str | None:
    """The original under the candidate's name: torch computes everything and no kernel is there."""
    changed = re.sub(r"\bModel\b", "ModelNew", task.source)
    return changed if "class ModelNew" in changed else None
