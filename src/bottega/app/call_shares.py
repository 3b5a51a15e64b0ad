"""What answers the calls of a model, by module and shapes: a kernel, or the original, and then why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from bottega.app.optimize_parts import Searched, is_inside
from bottega.episodes.delivery.drop_in.attributes import standing_for
from bottega.episodes.delivery.end_to_end import imported
from bottega.episodes.delivery.result import OPTIMIZED
from bottega.episodes.delivery.whole_model import CallShare, WholeModel
from bottega.tasks.capture import WRITTEN_DOWN
from bottega.tasks.capture_calls import CapturedCall

LEAST_SHARE, MOST_ROWS = 0.01, 20


def kernel_calls(model: nn.Module, call: Callable[[nn.Module], Any]) -> Counter[str]:
    """In one call of the model: how often the kernel of each delivered file ran, by the name under which that was imported."""
    kernels = {id(each): each for part in model.modules() for each in standing_for(part)[:-1]}
    before = {key: each.calls for key, each in kernels.items()}
    if kernels:
        call(model)
    found = Counter[str]()
    for key, each in kernels.items():
        found[type(each).__module__] += each.calls - before[key]
    return found


def call_shares(
    calls: Sequence[CapturedCall],
    times: int,
    roots: Collection[str],
    searched: Iterable[Searched],
    whole: WholeModel,
    folder: Path,
    ran: Mapping[str, int],
) -> tuple[CallShare, ...]:
    """The costliest kinds of calls, and those that have a kernel; the model's own and those inside of a kernel are left out. `times`: the model was
    called so often while they were counted. `ran`: what `kernel_calls` found for the form that is handed over."""
    best, plain = whole.best, whole.forms[0]
    by_key = {each.call.key: each for each in searched}
    where = {str(each.folder.relative_to(folder)): key for key, each in by_key.items()}
    kept = {where[part.folder] for part in best.kept} if best else set()
    reasons = {where[each.part.folder]: each.reason for each in (best or plain).parts if each.reason}
    total = sum(call.seconds for call in calls if call.key in roots) or 1.0
    rows = list[CallShare]()
    for call in sorted(calls, key=lambda each: -each.seconds):
        little = call.seconds < LEAST_SHARE * total or len(rows) >= MOST_ROWS
        if call.key in roots or is_inside(call, kept, calls) or (little and call.key not in kept):
            continue
        count = call.count // times
        if call.key in kept:
            runs = ran.get(imported(by_key[call.key].folder / OPTIMIZED).__name__, 0)
            told = "a kernel" if runs >= count else f"a kernel, {runs} of them"
        elif call.key in reasons:
            told = f"the original; its kernel {reasons[call.key]}"
        elif call.key in by_key:
            told = f"the original; {by_key[call.key].outcome}"
        elif not call.searchable:
            told = f"the original; no task is made of it: {call.reason.rpartition(WRITTEN_DOWN)[2]}"
        else:
            told = "the original"
        inner = sum(1 for other in kept if other != call.key and _calls(call.key, other, calls))
        if call.key not in kept and inner:
            told += f"; {inner} {'kind' if inner == 1 else 'kinds'} of calls inside of it by kernels"
        row = CallShare(call.name, call.shapes, count, call.seconds / total, told)
        # A mask that grows with each token makes as many shapes of one layer: one row, with those of the costliest.
        alike = next((n for n, other in enumerate(rows) if (other.label, other.answered) == (row.label, told)), None)
        if call.key in kept or alike is None:
            rows.append(row)
        else:
            rows[alike] = rows[alike].with_more(row)
    return tuple(rows)


def _calls(key: str, other: str, calls: Sequence[CapturedCall]) -> bool:
    """Whether one kind calls the other, or what does."""
    above = {each.key: each.inside for each in calls}
    pending, seen = list(above.get(other, ())), set[str]()
    while pending:
        caller = pending.pop()
        if caller == key:
            return True
        if caller not in seen:
            seen.add(caller)
            pending += above.get(caller, ())
    return False
