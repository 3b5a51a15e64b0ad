"""A report as data, and what becomes of it: Markdown, and one HTML file that is this Markdown rendered, with drawings in it.

Whatever is reported gives a `ReportPage`; nothing here knows what the figures mean. What came from outside is escaped on its way into the Markdown,
and HTML in Markdown is never taken as HTML. Nothing in the file runs, and nothing is fetched: it can be read on a phone and printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from markdown_it import MarkdownIt

from bottega.core.foreign_text import html_text, markdown_text, printable

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; break-after: avoid; } h1, summary, td, li { overflow-wrap: anywhere; }
blockquote { margin: 0; color: var(--bad); } .big { font-size: 1.4rem; color: var(--good); margin: .2rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .85rem; opacity: .8; }
figure svg { width: 100%; height: auto; background: #fff; border-radius: .4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; } tr { break-inside: avoid; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { position: sticky; left: 0; background: Canvas; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; padding: .6rem; font-size: .8rem; line-height: 1.4; }
pre .add { color: var(--good); } pre .cut { color: var(--bad); }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 40rem) { table { font-size: .9rem; } }
@media print { body { max-width: none; font-size: 11px; } figcaption { font-size: 10px; } .charts { grid-template-columns: 1fr 1fr; } }
@media print { pre { white-space: pre-wrap; } details::details-content { content-visibility: visible; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing in it runs, and nothing is fetched, should an escape ever be missed."""


class Drawing(Protocol):
    @property
    def title(self) -> str: ...
    @property
    def caption(self) -> str: ...
    def svg(self, number: int) -> str:
        """`number` keeps the ids of several drawings in one page apart."""
        ...

    def curves(self) -> Sequence[Sequence[str]]:
        """For Markdown, which has no drawings: of each curve its name, its first and last value, and a line of text that shows it."""
        ...


@dataclass(frozen=True)
class Paragraph:
    text: str
    strong: str = ""
    """What stands before it, set off: the result itself."""


@dataclass(frozen=True)
class Code:
    text: str
    language: str = "text"


@dataclass(frozen=True)
class ReportTable:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    """How to read it."""


@dataclass(frozen=True)
class Items:
    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Drawings:
    title: str
    drawings: Sequence[Drawing]
    empty: str = ""
    """In place of drawings where there are none."""


@dataclass(frozen=True)
class PageSection:
    """Blocks under a title. In HTML one that is folded is opened by a click."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False
    open: bool = False


Block = Paragraph | Code | ReportTable | Items | Drawings | PageSection


@dataclass(frozen=True)
class ReportPage:
    title: str
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str] = ()
    headlines: Sequence[Paragraph] = ()
    blocks: Sequence[Block] = ()
    notes: Sequence[str] = ()

    @property
    def tables(self) -> list[ReportTable]:
        return [block for block in self.blocks if isinstance(block, ReportTable)]


def markdown(page: ReportPage) -> str:
    parts = [*_beginning(page), *(part for block in page.blocks for part in _markdown(block)), *_notes(page)]
    return "\n\n".join(filter(None, parts)) + "\n"


def html(page: ReportPage) -> str:
    body = [_rendered(_beginning(replace(page, headlines=())))]
    body += [f'<p class="big"><strong>{html_text(line.strong)}</strong> {html_text(line.text)}</p>' for line in page.headlines]
    body += [_html(block) for block in page.blocks]
    body.append(_rendered(_notes(page)))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html_text(POLICY)}">'
        f"<title>{html_text(page.title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(filter(None, body))
        + "\n</body></html>\n"
    )


def _beginning(page: ReportPage) -> list[str]:
    warnings = [f"> **{markdown_text(text)}**" for text in page.warnings]
    headlines = [part for line in page.headlines for part in _markdown(line)]
    return [f"# {markdown_text(page.title)}", *warnings, *headlines, _listed(page.facts)]


def _notes(page: ReportPage) -> list[str]:
    return ["## Notes", "\n".join(f"- {markdown_text(note)}" for note in page.notes)] if page.notes else []


def _markdown(block: Block, level: int = 2) -> list[str]:
    """Its parts, between which empty lines stand."""
    if isinstance(block, Paragraph):
        return [f"{f'**{markdown_text(block.strong)}** ' if block.strong else ''}{markdown_text(block.text)}".strip()]
    if isinstance(block, Code):
        return [_fence(block)]
    if isinstance(block, PageSection):
        return [_heading(block.title, level), *(part for each in block.blocks for part in _markdown(each, level + 1))]
    if isinstance(block, Items):
        return [_heading(block.title, level), _listed(block.rows)]
    if isinstance(block, ReportTable):
        return [_heading(block.title, level), markdown_text(block.caption), _rows(block.columns, block.rows)]
    curves = [(drawing.title, *row) for drawing in block.drawings for row in drawing.curves()]
    if curves:
        return [_heading(block.title, level), _rows(("", "", "first", "last", "from the first step to the last"), curves)]
    return [] if block.drawings else [markdown_text(block.empty)]


def _html(block: Block) -> str:
    if isinstance(block, PageSection):
        inside = "".join(_html(each) for each in block.blocks)
        title = html_text(block.title)
        if block.folded:
            return f"<details{' open' if block.open else ''}><summary>{title}</summary>{inside}</details>"
        return f"<h2>{title}</h2>{inside}"
    if isinstance(block, Drawings) and block.drawings:
        figures = [
            f"<figure>{drawing.svg(number)}<figcaption>{html_text(drawing.caption)}</figcaption></figure>"
            for number, drawing in enumerate(block.drawings)
        ]
        title = f"<h2>{html_text(block.title)}</h2>" if block.title else ""
        return f'{title}<div class="charts">{"".join(figures)}</div>'
    return _rendered(_markdown(block))


def _rendered(parts: Sequence[str]) -> str:
    text: str = _RENDERER.render("\n\n".join(filter(None, parts)))
    return text.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")


def _coloured(text: str, language: str, attributes: str) -> str:
    """What was added and what was taken away, in colours."""
    lines = []
    for line in text.splitlines():
        kind = {"+": "add", "-": "cut"}.get(line[:1], "") if language == "diff" else ""
        lines.append(f'<span class="{kind}">{html_text(line)}</span>' if kind else html_text(line))
    return "\n".join(lines)


_RENDERER = MarkdownIt("commonmark", {"html": False, "highlight": _coloured}).enable("table")


def _heading(title: str, level: int) -> str:
    return f"{'#' * level} {markdown_text(title)}" if title else ""


def _listed(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {markdown_text(name)}: {markdown_text(text)}" for name, text in rows)


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    found = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in found)


def _fence(code: Code) -> str:
    """A fence longer than any run of its own sign in the text, which so cannot close it."""
    text = printable(code.text.replace("\r\n", "\n"))
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    sign = "`" * max(3, longest + 1)
    return f"{sign}{code.language}\n{text.rstrip()}\n{sign}"
