"""`report.html`: one file for a phone, a browser and a printer. Every piece of text is escaped: kernels and diagnoses are foreign."""

from __future__ import annotations

import math

from bottega.core.foreign_text import html_text
from bottega.episodes.delivery.report import GUARD, NOT_HANDED_OVER, headline
from bottega.episodes.delivery.report_content import ReportAttempt, ReportContent
from bottega.episodes.delivery.result import BEATS_EAGER

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h1, summary, td, dd { overflow-wrap: anywhere; }
.big { font-size: 1.6rem; font-weight: 600; color: var(--good); margin: .2rem 0; }
.none { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.scroll { overflow-x: auto; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; padding: .6rem; font-size: .8rem; line-height: 1.4; }
pre.words { white-space: pre-wrap; overflow-wrap: anywhere; }
pre .add { color: var(--good); } pre .cut { color: var(--bad); }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
.faster { color: var(--good); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dd { margin: 0; } dt { opacity: .7; }
svg { width: 100%; height: auto; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } dt { font-size: .85rem; } .wide { display: none; } }
@media print { body { max-width: none; font-size: 11px; } pre { white-space: pre-wrap; } details::details-content { content-visibility: visible; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing in it runs, and nothing is fetched, should an escape ever be missed."""


def html(content: ReportContent) -> str:
    title = f"{content.title}: {headline(content)}"
    sections = [
        f"<h1>{html_text(title)}</h1>",
        *(f'<p class="big">{html_text(text)} <small>against {html_text(name)}</small></p>' for name, text in content.speedups),
        *([f'<p class="big none">{html_text(content.missed)}</p>'] if content.missed else []),
        *(f"<p>{BEATS_EAGER}: {html_text(text)} against {html_text(name)}</p>" for name, text in content.kept),
        *([f"<p>The kernel was written by {html_text(content.author)}.</p>"] if content.found else []),
        _facts(content),
        *(_section("Use it", _use(content)) if content.found else []),
        *(_section("Check it again", _code(content.check, "words")) if content.found else []),
        *_section("The path there", _chart(content), _table(content), *(_attempt(attempt) for attempt in content.attempts)),
        *(_section(NOT_HANDED_OVER, _list(content.retrials)) if content.retrials else []),
        *(_section("Skills that were proposed", _list(content.proposals)) if content.proposals else []),
        *_section("Where", _definitions(content.fingerprint), _code(content.command, "words") if content.command else ""),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html_text(POLICY)}">'
        f"<title>{html_text(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(filter(None, sections))
        + "\n</body></html>\n"
    )


def _section(title: str, *parts: str) -> list[str]:
    return [f"<h2>{html_text(title)}</h2>", *parts]


def _facts(content: ReportContent) -> str:
    totals = content.totals
    rows = [(f"{name} time", f"{ms:.4g} ms") for name, ms in (content.verdict.times_ms if content.verdict else {}).items()]
    rows += [("ended", content.ended), *([("stopped by an error", content.error)] if content.error else [])]
    rows += [("attempts", ", ".join(f"{count} {outcome}" for outcome, count in content.outcomes.items()) or "none")]
    rows += [("drafts", content.drafting)] if content.drafting else []
    rows += [("tokens", totals.text)]
    rows += [("cost", f"{totals.cost:.4f}")] if totals.cost else []
    rows += [("time", f"{totals.seconds:.0f} s")]
    rows += [("about the module", problem) for problem in content.problems]
    rows += [("note", note) for note in (content.verdict.notes if content.verdict else ())]
    return _definitions(rows)


def _use(content: ReportContent) -> str:
    if content.refused:
        return f"<p>{html_text(content.load)}(original) refuses: {html_text(content.refused)}</p>"
    return (
        _code(f"import optimized\n\nmodule = optimized.{content.load}(original)") + f"<p>{GUARD.format(content.guard_us)}</p>"
    )


def _chart(content: ReportContent) -> str:
    """Speedups of the attempts that were timed, in order, on a logarithmic scale with a line at 1."""
    timed = [
        (attempt.number, attempt.point, attempt.best) for attempt in content.attempts if attempt.point and attempt.point > 0
    ]
    if len(timed) < 2:
        return ""
    logs = [math.log(point) for _, point, _ in timed]
    low, high, last = min(*logs, -0.05), max(*logs, 0.05), max(len(content.attempts), 2)

    def place(number: int, value: float) -> tuple[float, float]:
        return 20 + 560 * (number - 1) / (last - 1), 130 - 110 * (value - low) / (high - low)

    level = place(1, 0)[1]
    dots = []
    for (number, point, best), value in zip(timed, logs):
        x, y = place(number, value)
        colour = "var(--good)" if best else "currentColor"
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if best else 4}" fill="{colour}"><title>{number}: {point:.2f}×</title></circle>'
        )
    text = f'<text x="20" y="{level - 4:.1f}" font-size="11" fill="currentColor">1× {html_text(content.baseline)}</text>'
    line = f'<line x1="20" x2="580" y1="{level:.1f}" y2="{level:.1f}" stroke="currentColor" stroke-dasharray="4 4"/>'
    return f'<svg viewBox="0 0 600 150" role="img" aria-label="speedup of each attempt">{line}{text}{"".join(dots)}</svg>'


def _table(content: ReportContent) -> str:
    if not content.attempts:
        return "<p>No attempt was made.</p>"
    rows = [
        f"<tr><td>{attempt.number}</td><td>{html_text(attempt.node)}</td><td>{html_text(attempt.author)}</td>"
        f'<td class="{_class(attempt)}">{html_text(attempt.outcome)}</td><td>{html_text(attempt.speedup)}</td>'
        f'<td class="wide">{attempt.tokens}</td><td class="wide">{attempt.seconds:.1f}</td></tr>'
        for attempt in content.attempts
    ]
    head = (
        f"<tr><th>#</th><th>kernel</th><th>by</th><th>outcome</th><th>against {html_text(content.baseline)}</th>"
        '<th class="wide">tokens</th><th class="wide">s</th></tr>'
    )
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _attempt(attempt: ReportAttempt) -> str:
    came = f" from {attempt.parent}" if attempt.parent else ""
    title = f"{attempt.number}. {attempt.node} by {attempt.author}{came}: {attempt.outcome} {attempt.speedup}"
    parts = [f"<p>skills: {html_text(', '.join(attempt.skills))}</p>"] if attempt.skills else []
    parts += [f"<p>{html_text(attempt.summary)}</p>"] if attempt.summary else []
    parts += [_code(attempt.diagnosis, "words")] if attempt.diagnosis else []
    parts += [_diff(attempt.changed) if attempt.is_diff else _code(attempt.changed)] if attempt.changed else []
    return f'<details{" open" if attempt.best else ""}><summary class="{_class(attempt)}">{html_text(title)}</summary>{"".join(parts)}</details>'


def _diff(text: str) -> str:
    lines = []
    for line in text.splitlines():
        kind = {"+": "add", "-": "cut"}.get(line[:1], "")
        lines.append(f'<span class="{kind}">{html_text(line)}</span>' if kind else html_text(line))
    return f"<pre>{chr(10).join(lines)}</pre>"


def _class(attempt: ReportAttempt) -> str:
    return "faster" if attempt.outcome == "faster" else ""


def _code(text: str, kind: str = "code") -> str:
    return f'<pre class="{kind}">{html_text(text)}</pre>'


def _list(rows: tuple[tuple[str, str], ...]) -> str:
    return "<ul>" + "".join(f"<li>{html_text(name)}: {html_text(text)}</li>" for name, text in rows) + "</ul>"


def _definitions(rows: object) -> str:
    assert isinstance(rows, list | tuple)
    return (
        "<dl>" + "".join(f"<dt>{html_text(str(name))}</dt><dd>{html_text(str(value))}</dd>" for name, value in rows) + "</dl>"
    )
