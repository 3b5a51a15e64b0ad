"""`report.md`: what was found and how, for people and for whoever reads Markdown. Foreign text stands in fences that it cannot close."""

from __future__ import annotations

import re

from bottega.core.foreign_text import markdown_code, markdown_text
from bottega.episodes.delivery.report_content import ReportAttempt, ReportContent
from bottega.episodes.delivery.result import BEATS_EAGER

GUARD = "Looking at the arguments adds about {:.0f} µs to each call; the measurement is of the kernel alone."
NOT_HANDED_OVER = "Looked faster, and was not handed over"


def markdown(content: ReportContent) -> str:
    parts = [f"# {markdown_text(content.title)}: {headline(content)}", *_summary(content)]
    if content.found:
        parts += ["## Use it", *_use(content)]
    parts += ["## Check it again", _fence(content.check, "sh")] if content.found else []
    parts += ["## The path there", _table(content), *(_attempt(attempt) for attempt in content.attempts)]
    if content.retrials:
        told = "\n".join(f"- {markdown_code(node)}: {markdown_text(why)}" for node, why in content.retrials)
        parts += [f"## {NOT_HANDED_OVER}", told]
    if content.proposals:
        told = "\n".join(f"- {markdown_code(name)}: {markdown_text(intent)}" for name, intent in content.proposals)
        parts += [
            "## Skills that were proposed",
            told,
            "They are in proposed.jsonl; `bottega skills import` takes them into a library.",
        ]
    parts += [
        "## What it took",
        _took(content),
        "## Where",
        "\n".join(f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in content.fingerprint),
    ]
    parts += [_fence(content.command, "sh")] if content.command else []
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(content: ReportContent) -> str:
    """What a title says was found, and against what."""
    if content.found:
        return f"a kernel that beats {content.baseline}"
    return f"no kernel beats {content.baseline}" + ("; one beats eager" if content.kept else "")


def _summary(content: ReportContent) -> list[str]:
    told = [f"- **{text}** against {name}, with its 99 % interval" for name, text in content.speedups]
    told += [f"- **{markdown_text(content.missed)}**"] if content.missed else []
    told += [f"- `{BEATS_EAGER}`: {text} against {name}, with its 99 % interval" for name, text in content.kept]
    told += [f"- written by {markdown_text(content.author)}"] if content.found else []
    verdict = content.verdict
    if verdict is not None:
        told += [f"- {name}: {ms:.4g} ms" for name, ms in verdict.times_ms.items()]
        told += [f"- {markdown_text(note)}" for note in verdict.notes]
    told += [f"- ended: {markdown_text(content.ended)}"]
    told += [f"- **stopped by an error:** {markdown_text(content.error)}"] if content.error else []
    told += [f"- drafts: {markdown_text(content.drafting)}"] if content.drafting else []
    told += [f"- about the module: {markdown_text(problem)}" for problem in content.problems]
    return ["\n".join(told)]


def _use(content: ReportContent) -> list[str]:
    if content.refused:
        return [f"`{content.load}(original)` refuses: {markdown_text(content.refused)}"]
    return [
        _fence(f"import optimized\n\nmodule = optimized.{content.load}(original)", "python"),
        GUARD.format(content.guard_us),
    ]


def _table(content: ReportContent) -> str:
    rows = [
        f"| # | kernel | by | from | outcome | against {content.baseline} | tokens | s |",
        "|---:|---|---|---|---|---|---:|---:|",
    ]
    for attempt in content.attempts:
        outcome = f"**{attempt.outcome}**" if attempt.best else attempt.outcome
        parent = markdown_code(attempt.parent) if attempt.parent else ""
        cells = (attempt.number, markdown_code(attempt.node), markdown_text(attempt.author), parent, outcome, attempt.speedup)
        rows.append(f"| {' | '.join(map(str, cells))} | {attempt.tokens} | {attempt.seconds:.1f} |")
    counted = ", ".join(f"{count} {outcome}" for outcome, count in content.outcomes.items()) or "no attempt was made"
    return counted + "\n\n" + "\n".join(rows) if content.attempts else counted


def _attempt(attempt: ReportAttempt) -> str:
    parts = [
        f"### {attempt.number}. {markdown_text(attempt.node)} by {markdown_text(attempt.author)}: {attempt.outcome} {attempt.speedup}".rstrip()
    ]
    parts += [f"skills: {markdown_text(', '.join(attempt.skills))}"] if attempt.skills else []
    parts += [markdown_text(attempt.summary)] if attempt.summary else []
    parts += [_fence(attempt.diagnosis, "text")] if attempt.diagnosis else []
    parts += [_fence(attempt.changed, "diff" if attempt.is_diff else "python")] if attempt.changed else []
    return "\n\n".join(parts)


def _took(content: ReportContent) -> str:
    totals = content.totals
    cost = f", {totals.cost:.4f} in money" if totals.cost else ""
    return f"{totals.text}{cost}, {totals.seconds:.0f} s."


def _fence(text: str, language: str) -> str:
    """A fence longer than any run of its own sign in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    sign = "`" * max(3, longest + 1)
    return f"{sign}{language}\n{text.rstrip()}\n{sign}"
