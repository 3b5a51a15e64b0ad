"""The diagnosis for the next attempt: the first thing that is wrong and where, or how far from the floor the time is. Pure functions."""

from __future__ import annotations

import re
from typing import Any

from bottega.core.candidate import SOURCE_LIMIT, Candidate
from bottega.core.foreign_text import printable, tokens, words_of
from bottega.core.verdict import BEST, Outcome, Verdict, interval_text
from bottega.judge.settings import Settings
from bottega.judge.tolerance import tolerance
from bottega.languages import language_named

LINES = 12
TRITON_LINES = 4
LONGEST_PART = 4000
LONGEST = 12_000
LONGEST_READ = 20_000
"""Characters of a compiler's or a process's words that are looked at; whoever sends them cuts them shorter."""
MOST_TENSORS = 4
APART = 0.1
PAIRED = " (the ratio is of paired calls, without what either waited for a core)"
"""What is said where two times divide to another ratio than the one that counts, by more than `APART`."""
MODES = {
    "fp32": "fp32 with TF32 off",
    "tf32": "fp32 with TF32 allowed",
    "fp16": "fp32 with autocast to fp16 allowed",
    "bf16": "fp32 with autocast to bf16 allowed",
}
_ERROR = re.compile(r"\berror\b|Error:|undefined (?:reference|symbol)")
_HALF = frozenset({"__half", "float16", "bfloat16", "half"})

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
    "outputs_share_memory": "Return each output in memory of its own: a caller may change one of them.",
    "inconsistent_output": "Every call gets new inputs: nothing may be kept from an earlier call.",
    "precision_downgrade": "Compute in the task's precision, or have the judge allow a lower one (--precision).",
    "output_reused": "Return memory that no later call writes to: allocate the outputs of every call anew.",
    "parameters_not_taken": "Name the parameters and buffers as the reference does, so that its values can be loaded.",
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
        parts.append(_sentence(words_of(found["problem"], LONGEST_PART)))
        parts.append(_comparison_text(settings, found))
        parts.extend(_hints(candidate, found))
    for violation in verdict.violations:
        advice = ADVICE.get(violation.name, "")
        parts.append(f"{violation.name}: {violation.detail}. {advice}".strip())
    if verdict.outcome.accepted:
        parts.append(_speed_text(verdict, settings))
    return printable("\n".join(part[:LONGEST_PART] for part in parts if part)[:LONGEST])


def _comparison_text(settings: Settings, found: dict[str, Any]) -> str:
    """What the outputs were compared with: the mode of arithmetic, the data types, and the tolerance."""
    facts = found.get("facts", {})
    outputs = facts.get("outputs")
    if not outputs:
        return ""
    mode = MODES[settings.precision]
    inputs = f"inputs {_tensors(facts['inputs'])}; " if facts.get("inputs") else ""
    told = f"Math mode: {mode}; {inputs}outputs {_tensors(outputs)}."
    if "is wrong" not in str(found["problem"]):
        return told  # of another shape, type or structure: no number came into it
    oracle = "the reference's own output" if found.get("oracle") == "reference" else "fp64"
    for dtype in list(dict.fromkeys(str(row[0]) for row in outputs))[:3]:
        if dtype.startswith(("float", "bfloat", "complex")):
            limit = tolerance(dtype, settings.precision)
            told += (
                f" {dtype} may differ from {oracle} by {limit.overall:g} in the root mean square and by {limit.element:g} of its size plus "
                f"the root mean square in one element, or by {limit.slack:g} times what the reference differs."
            )
        else:
            told += f" {dtype} must be equal."
    worst = [row["worst_element"] for trial in found.get("trials", []) for row in trial["errors"] if row.get("worst_element")]
    return told + (f" Its worst element differs by {max(worst):.2g}." if worst else "")


def _tensors(rows: list[Any]) -> str:
    """`float32 [16, 1024], int64 [16]`"""
    told = ", ".join(f"{dtype} {list(shape)}" for dtype, shape in rows[:MOST_TENSORS])
    return told + (f" and {len(rows) - MOST_TENSORS} more" if len(rows) > MOST_TENSORS else "")


def _failure_text(failure: dict[str, Any], ending: dict[str, Any]) -> str:
    if failure.get("kind") == "died":
        return _ending_text(ending)
    stages = {
        "import": "importing the file",
        "construct": "building ModelNew",
        "state": "loading the parameters",
        "forward": "calling forward",
    }
    stage = words_of(failure.get("stage"), 40)
    stage = stages.get(stage, stage)
    kind = words_of(failure.get("type"), 80) or "error"
    head = f"While {stage}: {kind}: " if stage else f"{kind}: "
    first = words_of(failure.get("first"), LONGEST_PART)
    began = f"\nIt began with {first_errors(first)}" if first else ""
    told = failure.get("where")
    where = [words_of(line, 300) for line in told[-3:]] if isinstance(told, list) else []
    tail = ("\n  at " + "\n  at ".join(where)) if where else ""
    return head + first_errors(words_of(failure.get("text"), 2 * LONGEST_PART)) + began + tail


def first_errors(text: str) -> str:
    """The first errors that a compiler or a driver named, each with what it shows of its line, rather than its last words."""
    lines = [line.rstrip()[:240] for line in text[:LONGEST_READ].splitlines() if line.strip()]
    if lines and "CUDA error" in lines[0]:
        return lines[0]  # the rest is advice for people at a debugger
    if lines and _is_place(lines[0]):
        return "\n".join([lines[0], *lines[1:][-TRITON_LINES:]])  # Triton: the function up to the place, then the reason
    marked = [number for number, line in enumerate(lines) if _ERROR.search(line)]
    if not marked:
        return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 4], "…", *lines[-3:]])
    if len(lines) <= LINES and marked[0] <= 1:
        return "\n".join(lines)
    chosen: list[str] = []
    for number in marked:
        chosen.extend(line for line in lines[number : number + 3] if line not in chosen)
        if len(chosen) >= LINES:
            break
    return "\n".join(chosen[:LINES])


def _is_place(line: str) -> bool:
    """`at 12:4:`, as Triton begins to tell what it cannot compile."""
    words = line.strip().removeprefix("at ").removesuffix(":").split(":")
    return line.startswith("at ") and len(words) == 2 and all(word.isdigit() for word in words)


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
    output = words_of(ending.get("output"), LONGEST_READ).strip()
    return told + (f"\nIts last output:\n{first_errors(output[-3000:])}" if output else "")


def _stage_text(failure: dict[str, Any]) -> str:
    return str(failure.get("stage") or "importing, building or calling it")


def _hints(candidate: Candidate, found: dict[str, Any]) -> list[str]:
    """Static looks at the text, as hints only. Each looks for fixed words once: the text is a stranger's and may be long."""
    hints: list[str] = []
    problem, text = words_of(found.get("problem"), LONGEST_PART), candidate.source[:SOURCE_LIMIT]
    if found.get("parameters") == "seeded":
        hints.append(
            f"The parameter names differ from the reference's ({words_of(found.get('mismatch'), 500)}): with its names, its values would be "
            "loaded; without them the constructor must draw the same random numbers in the same order."
        )
    if "every element" not in problem and "precision" in problem and not _HALF.isdisjoint(tokens(text)):
        hints.append("The text mentions half precision.")
    hints.extend(language_named(candidate.language).hints(problem, text))
    constructor = text.find("def __init__")
    if constructor >= 0 and "cached" in text and text.find("\n    def ", constructor) >= 0:
        hints.append("Parameters are loaded after construction: values derived from them in __init__ are stale.")
    return hints


def _speed_text(verdict: Verdict, settings: Settings) -> str:
    lines: list[str] = []
    for name, speedup in verdict.speedup.items():
        which = f"{name}, which is {verdict.fastest_baseline} here," if name == BEST else name
        mine, theirs = verdict.times_ms.get("candidate", 0), verdict.times_ms.get(name, 0)
        paired = abs(theirs - speedup.point * mine) > APART * theirs
        lines.append(
            f"{speedup.point:.3f}× the speed of {which} ({interval_text(speedup.low, speedup.high, 3)}): "
            f"{mine:.4g} ms against {theirs:.4g} ms{PAIRED if paired else ''}."
        )
    floor, own = verdict.times_ms.get("floor"), verdict.times_ms.get("candidate")
    if floor and own:
        lines.append(
            f"Moving inputs, parameters and outputs once through memory takes about {floor:.4g} ms; "
            f"the kernel takes {own / max(floor, 1e-9):.1f} times that."
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
    if verdict.profile.get("bottleneck"):
        lines.append(verdict.profile["bottleneck"])
    if not verdict.speedup:
        lines.append("Right on every input that was tried; it was not timed.")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
