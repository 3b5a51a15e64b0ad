"""Where the choices of the sweep's tasks apply: the compiler's places, and that of an answer whose heavy operators are kernels of its own."""

from __future__ import annotations

from choice_tasks import CLASS, FUSED, SweepTask

from bottega.compiler import choice_places
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_places import ChoicePlace
from bottega.compiler.workload import workload_of
from bottega.core.workload import ATTENTION, CONVOLUTION, PRODUCT

HEAVY = (PRODUCT, CONVOLUTION, ATTENTION)


def places_of(task: SweepTask) -> dict[str, ChoicePlace]:
    """By the changes' name of the place."""
    own = task.answer[task.answer.index(CLASS) :]
    return choice_places.places_of(own, (change.place for change in task.variants), recorded(task.source))


def fused_place(task: SweepTask) -> dict[str, ChoicePlace]:
    """The operation that moves most bytes. By its name in the sweep's table."""
    heavy = [one for one in workload_of(recorded(task.source)).operations if one.kind in HEAVY]
    if not heavy:
        return {}
    largest = max(heavy, key=lambda one: one.sizes["bytes"])
    return {FUSED: ChoicePlace(FUSED, f"{FUSED} of {largest.kind}", dict(largest.sizes))}
