"""From what the controller measured to a verdict. A pure function: no process, no clock, no torch."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.foreign_text import one_line, printable, words_of
from bottega.core.task import Task
from bottega.core.verdict import BEST, TIME_AGAIN, Outcome, Speedup, Verdict, Violation
from bottega.judge import baselines
from bottega.judge.checks import check_violations
from bottega.judge.coverage import DECOY_BELOW, SAMPLES_FOR_A_DECOY, claimed_kernels
from bottega.judge.device_facts import device_facts
from bottega.judge.diagnosis import diagnose
from bottega.judge.profile import profile_of
from bottega.judge.settings import Settings
from bottega.judge.statistics import speed_outcome
from bottega.languages import language_named

Examination = dict[str, Any]

MOST_VIOLATIONS = 24
LONGEST_DETAIL = 600
MOST_NOTES = 24
LONGEST_NOTE = 800
"""A verdict stays small whatever a candidate does: it is kept in logs by the thousand, and read by models."""

FORGERY = (
    "protocol_forged",
    "clock_forged",
    "late_write",
    "input_mutated",
    "output_aliases_input",
    "outputs_share_memory",
    "work_after_return",
    "baseline_disturbed",
    "output_reused",
    "parameters_not_taken",
)


def decide(
    task: Task, candidate: Candidate, settings: Settings, found: Examination, ending: dict[str, Any] | None = None
) -> Verdict:
    """`found` is the controller's report; `ending` says how the candidate's process ended, when it did so by itself."""
    verdict = _decided(task, candidate, settings, found, [])
    if settings.checks and verdict.outcome.accepted:
        against = check_violations(settings.checks, task, candidate, verdict)
        verdict = _decided(task, candidate, settings, found, against) if against else verdict
    return replace(verdict, diagnosis=diagnose(verdict, candidate, settings, found, ending or {}))


def _decided(task: Task, candidate: Candidate, settings: Settings, found: Examination, against: list[Violation]) -> Verdict:
    """`against`: what further checks found."""
    violations = [Violation(str(name), _told(detail)) for name, detail in found.get("violations", [])[:MOST_VIOLATIONS]]
    failure = found.get("failure")
    problem = str(found.get("problem") or "")
    if failure and failure.get("kind") == "forged":
        violations.append(Violation("protocol_forged", _told(failure.get("text"))))
    if found.get("precision_suspect"):
        violations.append(Violation("precision_downgrade", "errors of the size that arithmetic in a lower precision makes"))
    violations += [*_coverage_violations(candidate, settings, found), *against]
    outcome = _outcome(settings, found, failure, problem, violations)
    claimed = claimed_kernels(candidate.source, candidate.language)
    tried = [trial for trial in found.get("trials", []) if not trial["skipped"]]
    correct = bool(tried) and not problem and failure is None and all(not trial["problem"] for trial in tried)
    timing = found.get("timing", {}) if outcome.accepted else {}
    return Verdict(
        outcome=outcome,
        correct=correct,
        speedup={
            name: Speedup(*(round(value, 4) for value in astuple(found_one)))
            for name, found_one in baselines.speedups(settings.baselines, timing).items()
        },
        baseline=baselines.primary(settings.baselines, timing),
        fastest_baseline=baselines.fastest(timing),
        memory=found.get("memory", {}),
        profile=_profile(settings, found) if outcome.accepted else {},
        times_ms=_times(settings, found),
        error=_error(found, tried),
        coverage=found.get("coverage", {"share": None, "method": "not measured", "own": [*claimed], "hottest": []}),
        violations=tuple(violations),
        notes=(
            *_notes(candidate, settings, found),
            *baselines.notes(settings.baselines, found.get("timing", {}), found.get("unavailable", {})),
        ),
        stages_s=found.get("stages", {}),
        task_id=task.id,
        candidate_id=candidate.id,
    )


def _outcome(settings: Settings, found: Examination, failure: Any, problem: str, violations: list[Violation]) -> Outcome:
    names = {violation.name for violation in violations}
    if failure and failure.get("kind") == "timeout":
        return Outcome.TIMEOUT
    if failure and failure.get("kind") == "failure":
        stage = failure.get("stage")
        return Outcome.COMPILE_ERROR if failure.get("compiling") or stage == "import" else Outcome.RUNTIME_ERROR
    if failure is not None and failure.get("kind") != "forged":
        return Outcome.RUNTIME_ERROR
    if names & set(FORGERY):
        return Outcome.REJECTED
    if problem:
        return Outcome.INCORRECT
    if names:
        return Outcome.REJECTED
    speedups = baselines.speedups(settings.baselines, found.get("timing", {}))
    return speed_outcome(next(iter(speedups.values()))) if speedups else Outcome.AMBIGUOUS


def _coverage_violations(candidate: Candidate, settings: Settings, found: Examination) -> list[Violation]:
    coverage = found.get("coverage")
    if coverage is None:
        if (
            settings.require_kernel is None
            or found.get("failure") is not None
            or found.get("problem")
            or found.get("violations")
        ):
            return []
        coverage = {"share": None, "method": "it was not timed"}
    share = coverage.get("share")
    claimed = claimed_kernels(candidate.source, candidate.language)
    violations: list[Violation] = []
    samples = coverage.get("samples")
    enough = samples is None or samples >= SAMPLES_FOR_A_DECOY
    if claimed and share is not None and share < DECOY_BELOW and enough and not coverage.get("beside_products"):
        names = ", ".join(claimed[:4])
        violations.append(Violation("decoy_kernel", f"the text defines kernels ({names}), but they do {share:.2%} of the work"))
    if settings.require_kernel is not None:
        if share is None:
            violations.append(
                Violation(
                    "coverage_unmeasured", f"a share of {settings.require_kernel:.0%} was required; {coverage.get('method')}"
                )
            )
        elif share < settings.require_kernel:
            violations.append(
                Violation(
                    "coverage_too_low", f"own kernels do {share:.1%} of the work; {settings.require_kernel:.0%} was required"
                )
            )
    return violations


def _times(settings: Settings, found: Examination) -> dict[str, float]:
    times: dict[str, float] = {}
    timing = found.get("timing", {})
    for name, row in timing.items():
        times.setdefault("candidate", round(row["candidate_ms"], 5))
        times[name] = round(row["baseline_ms"], 5)
    if timing and BEST in settings.baselines:
        times[BEST] = times[baselines.fastest(timing)]
    facts = found.get("facts", {})
    rate = facts.get("bytes_per_second")
    if times and rate:
        traffic = facts.get("input_bytes", 0) + facts.get("output_bytes", 0) + facts.get("parameter_bytes", 0)
        times["floor"] = round(traffic / rate * 1e3, 5)
    return times


def _profile(settings: Settings, found: Examination) -> dict[str, Any]:
    if not found.get("profile"):
        return {}
    return profile_of(found["profile"], _times(settings, found), found.get("facts", {}), device_facts(settings.device))


def _error(found: Examination, tried: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [row for trial in tried for row in trial["errors"]]
    relative = [row["relative"] for row in rows if "relative" in row]
    summary: dict[str, Any] = {"oracle": found.get("oracle", ""), "variants": [trial["variant"] for trial in tried]}
    skipped = [trial["variant"] for trial in found.get("trials", []) if trial["skipped"]]
    if skipped:
        summary["skipped_variants"] = skipped
    if relative:
        summary["candidate"] = _finite(max(relative))
        summary["reference"] = _finite(max(row["reference_relative"] for row in rows if "relative" in row))
        summary["limit"] = _finite(min(row["limit"] for row in rows if "limit" in row))
    unequal = [row for row in rows if "unequal" in row]
    if unequal:
        summary["unequal_elements"] = sum(row["unequal"] for row in unequal)
    return summary


def _notes(candidate: Candidate, settings: Settings, found: Examination) -> list[str]:
    notes: list[str] = list(found.get("notes", []))
    if found.get("parameters") == "seeded":
        notes.append(
            f"parameters: the names differ ({words_of(found.get('mismatch'), 500)}), so both models were built from one secret seed"
        )
    elif found.get("parameters") == "loaded":
        notes.append("parameters: the reference's were loaded by name")
    language = language_named(candidate.language)
    if not settings.timed and not language.is_timed_on(settings.device):
        notes.append(f"not timed: {language.title} runs in its interpreter on a CPU, which shows correctness only")
    elif not settings.timed:
        notes.append("not timed: this was asked for")
    if settings.precision != "fp32":
        notes.append(f"precision: {settings.precision} was allowed to the candidate and given to the baseline")
    clocks = {row["clock"] for row in found.get("timing", {}).values()}
    if "outer" in clocks and not any(row.get("shared") for row in found["timing"].values()):
        notes.append("timing: the controller's clock was used, since the process's own clock showed less")
    waited = next((row["waited"] for row in found.get("timing", {}).values() if row.get("waited")), "")
    if waited:
        notes.append(
            f"timing: the machine was busy, and the candidate waited for a core ({waited}), which counts; {TIME_AGAIN}"
        )
    beside = next((row["beside"] for row in found.get("timing", {}).values() if row.get("beside")), "")
    if beside:
        notes.append(f"timing: the baseline takes {beside}, and the difference is taken off; {TIME_AGAIN}")
    prepared = next((row["prepared"] for row in found.get("timing", {}).values() if row.get("prepared")), "")
    if prepared:
        notes.append(
            f"timing: many calls take {prepared} longer in the mean than the timed ones: work was done for several, or before"
        )
    unknown = next((row["unknown"] for row in found.get("timing", {}).values() if row.get("unknown")), "")
    if unknown:
        notes.append(f"timing: the candidate holds so much memory that {unknown} may have been prepared before, at the low end")
    stolen = next((row["stolen"] for row in found.get("timing", {}).values() if row.get("stolen")), "")
    if stolen:
        notes.append(f"timing: the baseline waited for a core that others had ({stolen}), which is taken off; {TIME_AGAIN}")
    if any(trial.get("restrided") for trial in found.get("trials", [])):
        notes.append("layout: an output has other strides than the reference's; changing them was timed")
    shared = next((row["shared"] for row in found.get("timing", {}).values() if row.get("shared")), "")
    if shared:
        notes.append(
            f"timing: others use the device ({shared}), so only what the controller's clock shows without any allowance counts; time it again"
        )
    if found.get("oracle") == "reference":
        notes.append("oracle: the model has no fp64 form that fits here, so its own output was the truth")
    if found.get("conditions", {}).get("throttled"):
        notes.append("timing: the GPU was throttling")
    return [printable(note[:LONGEST_NOTE]) for note in notes[:MOST_NOTES]]


def _told(detail: Any) -> str:
    """What was seen, as a verdict may repeat it."""
    return one_line(words_of(detail, LONGEST_DETAIL), LONGEST_DETAIL)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
