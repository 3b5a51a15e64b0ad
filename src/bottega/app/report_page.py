"""A report as data, and what becomes of it: one HTML file for a browser, a phone and a printer, and one Markdown file.

Whatever kind of run is reported gives a `Page`; nothing here knows what the curves mean. Everything that came from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from bottega.app.learning_display import spark
from bottega.app.report_curves import Panel, drawn

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .85rem; opacity: .8; }
figure svg { width: 100%; height: auto; background: #fff; border-radius: .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.scroll { overflow-x: auto; } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print { body { max-width: none; font-size: 11px; } .charts { grid-template-columns: 1fr 1fr; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing in it runs, and nothing is fetched."""


@dataclass(frozen=True)
class Rows:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    title: str
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str] = ()
    tables: Sequence[Rows] = ()
    panels: Sequence[Panel] = ()
    notes: Sequence[str] = field(default=())


def html(page: Page) -> str:
    parts = [f"<h1>{escape(page.title)}</h1>", *(f'<p class="bad">{escape(text)}</p>' for text in page.warnings)]
    parts.append("<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in page.facts) + "</dl>")
    for table in page.tables:
        parts.append(f"<h2>{escape(table.title)}</h2>" + _table(table))
    figures = [
        f"<figure>{drawn(panel, number)}<figcaption>{escape(panel.told)}</figcaption></figure>"
        for number, panel in enumerate(page.panels)
    ]
    parts.append(
        f'<h2>Curves</h2><div class="charts">{"".join(figures)}</div>' if figures else "<p>No step is finished yet.</p>"
    )
    if page.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in page.notes) + "</ul>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _table(table: Rows) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def markdown(page: Page) -> str:
    lines = [f"# {_plain(page.title)}", ""]
    lines += [f"> **{_plain(text)}**\n" for text in page.warnings]
    lines += [f"- {_plain(name)}: {_plain(text)}" for name, text in page.facts]
    for table in page.tables:
        lines += ["", f"## {_plain(table.title)}", "", *_rows(table.columns, table.rows)]
    curves = [
        (panel.title, line.name, f"{line.values[0]:.4g}", f"{line.values[-1]:.4g}", spark(list(line.values), 30))
        for panel in page.panels
        for line in panel.lines
        if line.values
    ]
    if curves:
        lines += ["", "## Curves", "", *_rows(("", "", "first", "last", "from the first step to the last"), curves)]
    if page.notes:
        lines += ["", "## Notes", "", *(f"- {_plain(note)}" for note in page.notes)]
    return "\n".join(lines) + "\n"


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    found = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in found]


def _plain(text: str) -> str:
    """One line that no cell and no list is broken by, and in which nothing is taken for HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
