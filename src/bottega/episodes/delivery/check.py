"""A finished result put to the test from its files alone: are they what was measured, and does the claim still hold?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.files import digest, read_regular
from bottega.core.verdict import Outcome, Verdict, interval_text
from bottega.episodes.attempts import spread
from bottega.episodes.delivery.result import FILE, LARGEST, OPTIMIZED, ORIGINAL, Result, judged_as_own, read_result
from bottega.tasks.files import read_source
from bottega.tasks.module import ModuleTask, Wanted, module_task_of

SESSION_TOLERANCE = 1.15
"""Two sessions on one machine differ by more than the noise within one: other neighbours, other clocks, another place in memory."""


@dataclass(frozen=True)
class Opened:
    result: Result
    subject: ModuleTask
    candidate: Candidate
    changed: tuple[str, ...]
    """Files that are not what they were when the claim was made, in words."""


@dataclass(frozen=True)
class ClaimCheck:
    holds: bool | None
    """None where it could not be told: the machine was too busy, or times spread too far."""
    words: str


def open_result(folder: Path) -> Opened:
    """`UsageError` or `TaskError` when there is nothing to put to the test."""
    result = read_result(folder)
    if result.outcome == "none":
        beyond = f" ({result.kept} there beats eager only, and nothing else is said of it)" if result.kept else ""
        raise UsageError(
            f"{folder}: no kernel that beats {result.baselines[0]} was found there, so there is nothing to check{beyond}"
        )
    changed = [] if result.intact else [f"{FILE} was edited"]
    for name, wanted in result.files.items():
        path = folder / Path(name).name
        try:
            if digest(read_regular(path, LARGEST)) != wanted:
                changed.append(f"{name} was changed")
        except OSError as error:
            if name in (ORIGINAL, OPTIMIZED):
                raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
            changed.append(f"{name} is missing")
    for name in (ORIGINAL, OPTIMIZED):
        if name not in result.files:
            changed.append(f"{FILE} says nothing of {name}")
    module = result.module
    wanted_module = Wanted(module.class_name, module.inputs, module.init, module.function, module.dtype)
    subject = module_task_of(read_source(folder / ORIGINAL), wanted_module, module.name, str(folder / ORIGINAL))
    if subject.task.id != result.task_id and not changed:
        changed.append(f"{ORIGINAL} makes another task than the one that was judged")
    source = read_source(folder / OPTIMIZED)
    return Opened(result, subject, Candidate(source, result.language, "optimized"), tuple(changed))


def compared(opened: Opened, verdict: Verdict, device: str) -> ClaimCheck:
    """Whether the claim holds: the same files, right, honest, faster, and on the same machine about as much as was said."""
    result, baseline = opened.result, opened.result.baselines[0] if opened.result.baselines else "eager"
    claim, now = result.claim.get(baseline), verdict.speedup.get(baseline)
    here = same_machine(result, verdict, device)
    less = claim is not None and now is not None and here and now.high * SESSION_TOLERANCE < claim.low
    if verdict.outcome is Outcome.AMBIGUOUS and not less and not opened.changed:
        told = f"it could not be told now,{_measured(verdict, baseline)}"
        trusting = result.own_code and not judged_as_own(verdict.fingerprint)
        again = (
            "if you trust the kernel, `--own-code` measures it as it was claimed"
            if trusting
            else "check it again when the machine is idle"
        )
        return ClaimCheck(None, f"{told}; {again}")
    if verdict.outcome is not Outcome.FASTER:
        return ClaimCheck(False, f"it is {verdict.outcome} now{_measured(verdict, baseline)}")
    if verdict.baseline not in ("", baseline):
        return ClaimCheck(
            False,
            f"{baseline} could not be run here, which was to be beaten; it is faster,{_measured(verdict, verdict.baseline)}",
        )
    if opened.changed:
        return ClaimCheck(False, f"{'; '.join(opened.changed)}: what was claimed was claimed of other files")
    if claim is None or now is None:
        return ClaimCheck(False, f"{FILE} claims nothing against {baseline}")
    claimed = f"{claim.point:.2f}× ({interval_text(claim.low, claim.high)}) was claimed"
    if not here:
        return ClaimCheck(True, f"faster here too,{_measured(verdict, baseline)}; {claimed} on another machine")
    if less:
        return ClaimCheck(False, f"faster, but surely less than {claimed}:{_measured(verdict, baseline)}")
    return ClaimCheck(True, f"{_measured(verdict, baseline).strip()}; {claimed}")


def same_machine(result: Result, verdict: Verdict, device: str) -> bool:
    names = ("cpu", "cores") if device == "cpu" else ("gpu",)
    same = all(result.fingerprint.get(name) == verdict.fingerprint.get(name) for name in names)
    return same and result.device.partition(":")[0] == device.partition(":")[0]


def _measured(verdict: Verdict, baseline: str) -> str:
    told = spread(verdict, baseline)
    return f" {told} against {baseline}" if told else ""
