"""Skill cards of choices: a setting of a library function or a launch, with the device, data type and range of sizes for which it was found.

The conditions can be checked against a prompt: sizes are those that a call graph shows, the device is named. Whether a card holds for a place, and
what an answer becomes by it, is decided here, so that a model's obedience can be counted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from choice_sweep import Row, geometric_mean
from choice_tasks import FUSED, SweepTask

from bottega.compiler.answer_choices import ELEMENTS, OTHER, ROW, ROWS, SWEEP, AnswerChange, changed
from bottega.compiler.choice_places import STRIDED, ChoicePlace
from bottega.core import workload
from bottega.core.skill import NOTHING_MORE, AppliesTo, Conditions, Provenance, Skill
from bottega.core.workload import KINDS, LAST_AXIS, OTHER_AXIS

Range = tuple[int, int]
LONGEST_INTENT = 160
LAUNCHES = {
    ELEMENTS: "Launch elementwise kernels", ROWS: "Launch kernels that hold several rows", ROW: "Launch kernels with one row a program",
    SWEEP: "Launch kernels that sweep a row in blocks", OTHER: "Launch the other kernels",
}  # fmt: skip
ROW_LAUNCHES = (ROWS, ROW, SWEEP)
KIND_OF_LAUNCH = {ELEMENTS: workload.ELEMENTWISE, OTHER: workload.OTHER, **dict.fromkeys(ROW_LAUNCHES, workload.ROW)}


@dataclass(frozen=True)
class ChoiceCard:
    device: str
    functions: tuple[str, ...]
    """Library functions, or one kind of launch."""
    dtypes: tuple[str, ...]
    ranges: Mapping[str, Range]
    """By the name of a size, both ends included."""
    choice: str
    """`tile=(128, 64, 32), warps=4`."""
    tags: tuple[str, ...] = field(default=())
    effect: str = "Measured over the rule's own choice."
    provenance: Provenance = field(default=Provenance("sweep"))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChoiceCard:
        ranges = {name: (low, high) for name, (low, high) in data["ranges"].items()}
        return cls(data["device"], tuple(data["functions"]), tuple(data["dtypes"]), ranges, data["choice"], tuple(data["tags"]))

    def holds(self, place: ChoicePlace, dtype: str, device: str) -> bool:
        within = all(low <= place.sizes.get(size, -1) <= high for size, (low, high) in self.ranges.items())
        return within and place.function in self.functions and dtype in self.dtypes and device == self.device

    @property
    def name(self) -> str:
        """Short, as a selector has to repeat it; what else the card says is in its digits."""
        said = "_".join(
            re.findall(r"[a-z0-9]+", f"{_short(self.functions)} {' '.join(self.dtypes)} {self.device.split()[-1]}".lower())
        )
        digits = hashlib.sha256(f"{said} {sorted(self.ranges.items())} {self.choice}".encode()).hexdigest()[:6]
        return f"{said[:57].rstrip('_')}_{digits}"

    @property
    def where(self) -> str:
        sizes = [f"{low} to {high} {size}" for size, (low, high) in self.ranges.items()]
        return f"{_short(self.functions)}, {', '.join(sizes) or 'any size'}"

    @property
    def applies_to(self) -> AppliesTo:
        """What the task's call graph must show: of a launch the operations that are such launches."""
        bare = [name.removesuffix(STRIDED).removeprefix(f"{FUSED} of ") for name in self.functions]
        kinds = [KIND_OF_LAUNCH.get(name, name) for name in bare]
        strided = [name for name in self.functions if name.endswith(STRIDED)]
        along = () if not {*bare} & {*ROW_LAUNCHES} else (OTHER_AXIS,) if strided else (LAST_AXIS,)
        return AppliesTo(
            devices=(self.device,),
            dtypes=self.dtypes,
            operators=tuple(name for name in kinds if name not in KINDS),
            kinds=tuple(dict.fromkeys(name for name in kinds if name in KINDS)),
            layouts=along,
            sizes=self.ranges,
        )

    @property
    def technique(self) -> str:
        if self.functions[0].startswith(FUSED):
            return "Write the heavy operators as kernels of the answer's own, with what follows them fused in."
        kind = self.functions[0].removesuffix(STRIDED)
        if kind not in LAUNCHES:
            return f"Give calls of {' or '.join(self.functions)} these keyword arguments: {self.choice}."
        values = dict(part.split("=") for part in self.choice.split(", "))
        parts = [f"height = max(1, {values['rows_of']} // width)"] if "rows_of" in values else []
        parts += [f"BLOCK={values['block']}"] if "block" in values else []
        parts += [f"num_warps={values['warps']}"] if "warps" in values else []
        return f"{LAUNCHES[kind]} with {' and '.join(parts)}."

    def skill(self) -> Skill:
        intent = f"On an {self.device}, {' or '.join(self.dtypes)} {self.where}: {self.choice}."
        return Skill(
            name=self.name,
            intent=intent[:LONGEST_INTENT],
            scope="general",
            tags=tuple(dict.fromkeys(tag for tag in map(_tag, (*self.functions, *self.dtypes, *self.tags)) if tag))[:10],
            languages=("triton",),
            devices=("cuda",),
            conditions=Conditions(
                f"Tensors of {' or '.join(self.dtypes)}.", f"{self.where[0].upper()}{self.where[1:]}.", NOTHING_MORE, NOTHING_MORE,
                f"{self.device}."
            ),
            anchor=f"Answers with {self.where}.",
            technique=self.technique,
            example=self.technique,
            effect=self.effect[:400],
            failures=("Elsewhere, on another device or for other sizes, the rule's own choice is as fast or faster.",),
            applies_to=self.applies_to,
            provenance=self.provenance,
        )  # fmt: skip


def answer_with(task: SweepTask, places: Mapping[str, ChoicePlace], cards: Sequence[ChoiceCard], device: str) -> str:
    """The rule's answer with the choices of the cards that hold, the first of a place; others are not followed."""
    changes: dict[str, AnswerChange] = {}
    for card in cards:
        for change in task.variants:
            place = places.get(change.place)
            if place and change.label == card.choice and card.holds(place, task.dtype, device):
                changes.setdefault(change.place, change)
    return changed(task.answer, changes.values())


def advised_gain(row: Row, places: Mapping[str, ChoicePlace], card: ChoiceCard) -> float | None:
    """Over the rule, of the sweep's variant that a card advises, at all places of its function; None where there is none. A wrong one counts as the
    rule's."""
    found = [
        one for one in row["variants"]
        if one["label"] == card.choice and one["place"] in places and places[one["place"]].function in card.functions
    ]  # fmt: skip
    return geometric_mean([row["rule_ms"] / one["ms"] if one["ms"] else 1.0 for one in found]) if found else None


def _short(functions: Sequence[str]) -> str:
    """Of many functions what their names begin with: `max_pool or avg_pool`."""
    kinds = functions if len(functions) < 4 else dict.fromkeys(re.sub(r"(\d+d| of .*)$", "", name) for name in functions)
    return " or ".join(kinds).replace(f" or {FUSED} of ", " or ")


def _tag(text: str) -> str:
    return re.sub(r"[^a-z0-9_.+-]+", "_", text.lower()).strip("_.+-")[:40]
