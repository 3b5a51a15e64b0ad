"""A report as data, and what becomes of it: one HTML file for a browser, a phone and a printer, and one Markdown file.

Whatever kind of run is reported gives a `ReportPage`; nothing here knows what the curves mean. Everything that came from outside is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bottega.app.display import spark
from bottega.app.report_curves import Chart, CurvePanel, svg_of
from bottega.core.foreign_text import html_text, markdown_text

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .85rem; opacity: .8; }
figure svg { width: 100%; height: auto; background: #fff; border-radius: .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { position: sticky; left: 0; background: Canvas; } td span { white-space: nowrap; opacity: .75; }
.scroll { overflow-x: auto; } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { table { font-size: .9rem; } td span { display: block; font-size: .8rem; } }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
h2 { break-after: avoid; } tr { break-inside: avoid; }
@media print { body { max-width: none; font-size: 11px; } figcaption { font-size: 10px; } .charts { grid-template-columns: 1fr 1fr; } }
"""
INTERVAL = re.compile(r"(\S+(?: points)?) (\([^()]+ to [^()]+\),?)(.*)")
LONGEST_INTERVAL = 120
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing in it runs, and nothing is fetched."""


@dataclass(frozen=True)
class ReportTable:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    """How to read it."""


@dataclass(frozen=True)
class ReportPage:
    title: str
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    panels: Sequence[CurvePanel | Chart] = ()
    notes: Sequence[str] = field(default=())
    heading: str = "Curves"
    """Over the panels."""
    empty: str = "No step is finished yet."
    """In place of panels where there are none."""
    later: Sequence[ReportTable] = ()
    """Tables that come after the panels."""


def html(page: ReportPage) -> str:
    parts = [f"<h1>{html_text(page.title)}</h1>", *(f'<p class="bad">{html_text(text)}</p>' for text in page.warnings)]
    parts.append(
        "<dl>" + "".join(f"<dt>{html_text(name)}</dt><dd>{html_text(text)}</dd>" for name, text in page.facts) + "</dl>"
    )
    for table in page.tables:
        parts.append(f"<h2>{html_text(table.title)}</h2>" + _table(table))
    figures = [
        f"<figure>{svg_of(panel, number)}<figcaption>{html_text(panel.caption)}</figcaption></figure>"
        for number, panel in enumerate(page.panels)
    ]
    parts.append(
        f'<h2>{html_text(page.heading)}</h2><div class="charts">{"".join(figures)}</div>'
        if figures
        else f"<p>{html_text(page.empty)}</p>"
    )
    parts += [f"<h2>{html_text(table.title)}</h2>" + _table(table) for table in page.later]
    if page.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{html_text(note)}</li>" for note in page.notes) + "</ul>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html_text(POLICY)}">'
        f"<title>{html_text(page.title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _table(table: ReportTable) -> str:
    head = "".join(f"<th>{html_text(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    caption = f"<p>{html_text(table.caption)}</p>" if table.caption else ""
    return f'{caption}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(text: str) -> str:
    """An interval is set apart from its point, so that a narrow screen can put it below."""
    found = INTERVAL.fullmatch(text) if len(text) <= LONGEST_INTERVAL else None
    if found is None:
        return html_text(text)
    rest = f" <span>{html_text(found[3].strip())}</span>" if found[3] else ""
    return f"{html_text(found[1])} <span>{html_text(found[2])}</span>{rest}"


def markdown(page: ReportPage) -> str:
    lines = [f"# {markdown_text(page.title)}", ""]
    lines += [f"> **{markdown_text(text)}**\n" for text in page.warnings]
    lines += [f"- {markdown_text(name)}: {markdown_text(text)}" for name, text in page.facts]
    for table in page.tables:
        lines += _section(table)
    curves = [
        (panel.title, line.name, f"{line.values[0]:.4g}", f"{line.values[-1]:.4g}", spark(list(line.values), 30))
        for panel in page.panels
        if isinstance(panel, CurvePanel)
        for line in panel.lines
        if line.values
    ]
    if curves:
        lines += ["", "## Curves", "", *_rows(("", "", "first", "last", "from the first step to the last"), curves)]
    for table in page.later:
        lines += _section(table)
    if page.notes:
        lines += ["", "## Notes", "", *(f"- {markdown_text(note)}" for note in page.notes)]
    return "\n".join(lines) + "\n"


def _section(table: ReportTable) -> list[str]:
    caption = [markdown_text(table.caption), ""] if table.caption else []
    return ["", f"## {markdown_text(table.title)}", "", *caption, *_rows(table.columns, table.rows)]


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    found = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in found]
