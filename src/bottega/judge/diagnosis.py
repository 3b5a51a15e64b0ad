"""What to tell whoever tries again: the first thing that is wrong and where, or how far from the floor it is. Pure."""

from __future__ import annotations

import re
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.verdict import BEST, Outcome, Verdict
from bottega.judge.settings import Settings

LINES = 12
LONGEST_PART = 4000

ADVICE = {
    "input_mutated": "Do not write to the inputs; allocate an output.",
    "late_write": "Finish all work before returning: join threads and streams.",
    "clock_forged": "All work must happen inside forward, before it returns.",
    "work_after_return": "Join every stream and let every kernel end before forward returns.",
    "baseline_disturbed": "Leave nothing running between calls.",
    "decoy_kernel": "Call the kernels that the file defines, on the real data.",
    "coverage_too_low": "Move more of the work from library operators into own kernels.",
    "coverage_unmeasured": "The share of own kernels could not be measured here.",
    "output_aliases_input": "Return memory of its own, not a view of an input.",
    "inconsistent_output": "Every call gets new inputs: nothing may be kept from an earlier call.",
    "precision_downgrade": "Compute in the task's precision, or have the judge allow a lower one (--precision).",
    "protocol_forged": "The process of the candidate must not speak on the judge's channel.",
}


def diagnose(verdict: Verdict, candidate: Candidate, settings: Settings, found: dict[str, Any], ending: dict[str, Any]) -> str:
    parts: list[str] = []
    failure = found.get("failure") or {}
    if verdict.outcome in (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR) and failure:
        parts.append(_failure_text(failure, ending))
    elif verdict.outcome is Outcome.TIMEOUT:
        parts.append(f"It did not finish within {settings.timeout:g} s ({_stage_text(failure)}).")
    elif verdict.outcome in (Outcome.INCORRECT, Outcome.REJECTED) and found.get("problem"):
        parts.append(_sentence(str(found["problem"])))
        parts.extend(_hints(candidate, found))
    for violation in verdict.violations:
        advice = ADVICE.get(violation.name, "")
        parts.append(f"{violation.name}: {violation.detail}. {advice}".strip())
    if verdict.outcome.accepted:
        parts.append(_speed_text(verdict, settings))
    return printable("\n".join(part[:LONGEST_PART] for part in parts if part))


def printable(text: str) -> str:
    """Text of a foreign process without what would move a terminal's cursor or break an encoder."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def _failure_text(failure: dict[str, Any], ending: dict[str, Any]) -> str:
    if failure.get("kind") == "died":
        return _ending_text(ending)
    stages = {
        "import": "importing the file",
        "construct": "building ModelNew",
        "state": "loading the parameters",
        "forward": "calling forward",
    }
    stage = stages.get(str(failure.get("stage")), str(failure.get("stage", "")))
    kind, text = str(failure.get("type", "error"))[:80], str(failure.get("text", ""))
    head = f"While {stage}: {kind}: " if stage else f"{kind}: "
    told = failure.get("where")
    where = [str(line)[:300] for line in told][-3:] if isinstance(told, list) else []
    tail = ("\n  at " + "\n  at ".join(where)) if where else ""
    return head + first_errors(text) + tail


def first_errors(text: str) -> str:
    """The compiler's first errors rather than its last words; short texts as they are."""
    lines = [line.rstrip()[:240] for line in text.splitlines() if line.strip()]
    if len(lines) <= LINES:
        return "\n".join(lines)
    marked = [number for number, line in enumerate(lines) if re.search(r"\berror\b|Error:", line)]
    if not marked:
        return "\n".join([*lines[: LINES - 4], "…", *lines[-3:]])
    chosen: list[str] = []
    for number in marked:
        chosen.extend(line for line in lines[number : number + 3] if line not in chosen)
        if len(chosen) >= LINES:
            break
    return "\n".join(chosen[:LINES])


def _ending_text(ending: dict[str, Any]) -> str:
    reason, signal = ending.get("reason"), ending.get("signal")
    names = {
        11: "a segmentation fault",
        6: "an abort",
        8: "an arithmetic fault",
        4: "an illegal instruction",
        7: "a bus error",
        9: "SIGKILL",
    }
    if reason == "memory":
        told = "Its processes used more memory than they may."
    elif signal:
        told = f"Its process was ended by {names.get(int(signal), f'signal {signal}')}."
    elif ending.get("code") is not None:
        told = f"Its process exited by itself with code {ending['code']}."
    else:
        told = "Its process ended before it answered."
    output = str(ending.get("output") or "").strip()
    return told + (f"\nIts last output:\n{first_errors(output[-3000:])}" if output else "")


def _stage_text(failure: dict[str, Any]) -> str:
    return str(failure.get("stage") or "importing, building or calling it")


def _hints(candidate: Candidate, found: dict[str, Any]) -> list[str]:
    """Static looks at the text, as hints only."""
    hints: list[str] = []
    problem = str(found.get("problem", ""))
    if found.get("parameters") == "seeded":
        hints.append(
            f"The parameter names differ from the reference's ({found.get('mismatch')}): with its names, its values would be loaded; "
            "without them the constructor must draw the same random numbers in the same order."
        )
    if (
        "every element" not in problem
        and re.search(r"\b(__half|float16|bfloat16|half)\b", candidate.source)
        and "precision" in problem
    ):
        hints.append("The text mentions half precision.")
    if candidate.language == "triton" and "tail" in problem and "mask" not in candidate.source:
        hints.append("No mask is used in the Triton loads and stores.")
    if re.search(r"def __init__[\s\S]*?(?=\n    def )", candidate.source) and "cached" in candidate.source:
        hints.append("Parameters are loaded after construction: values derived from them in __init__ are stale.")
    return hints


def _speed_text(verdict: Verdict, settings: Settings) -> str:
    lines: list[str] = []
    for name, speedup in verdict.speedup.items():
        which = f"{name}, which is {verdict.fastest_baseline} here," if name == BEST else name
        lines.append(
            f"{speedup.point:.3f}× the speed of {which} ({speedup.low:.3f} to {speedup.high:.3f}): "
            f"{verdict.times_ms.get('candidate', 0):.4g} ms against {verdict.times_ms.get(name, 0):.4g} ms."
        )
    floor, own = verdict.times_ms.get("floor"), verdict.times_ms.get("candidate")
    if floor and own:
        lines.append(
            f"Moving inputs, parameters and outputs once through memory takes about {floor:.4g} ms; it takes {own / max(floor, 1e-9):.1f} times that."
        )
    coverage = verdict.coverage
    if coverage.get("share") is not None:
        lines.append(f"Own kernels do {coverage['share']:.0%} of the work.")
    hottest = coverage.get("hottest") or []
    if hottest:
        unit = "of the time" if settings.device == "cpu" else "us a call"
        shown = ", ".join(
            f"{name} {value:.0%}" if settings.device == "cpu" else f"{name} {value:g}" for name, value in hottest[:5]
        )
        lines.append(f"Hottest ({unit}): {shown}.")
    if not verdict.speedup:
        lines.append("Right on every input that was tried; it was not timed.")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
