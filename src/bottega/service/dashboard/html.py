"""HTML as nested calls: whatever is not `Html` already is escaped, so that a kernel can say what it likes. Nothing inline: no style, no script."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from bottega.core.foreign_text import html_text, one_line
from bottega.core.plot import Plot
from bottega.core.verdict import interval_text
from bottega.episodes.delivery.page import ReportTable

MOST_SHOWN = 400_000
"""Characters of one text in a page; the file has all of it."""
_VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def el(tag: str, *children: Any, **attributes: Any) -> Html:
    """`cls` is class; an underscore in an attribute's name is a dash; None and False leave it out."""
    words = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        words.append(name if value is True else f'{name}="{html_text(str(value))}"')
    if tag in _VOID:
        return Html(f"<{' '.join(words)}>")
    return Html(f"<{' '.join(words)}>{joined(*children)}</{tag}>")


def joined(*children: Any) -> Html:
    return Html("".join(_escaped(child) for child in children))


def _escaped(child: Any) -> str:
    if isinstance(child, Html):
        return child
    if child is None or child is False or child == "":
        return ""
    if isinstance(child, list | tuple):
        return "".join(_escaped(each) for each in child)
    return html_text(str(child))


def link(target: str, *children: Any, **attributes: Any) -> Html:
    """The same without a link where there is nothing to go to, as in a file that stands alone."""
    if target:
        return el("a", *children, href=target, **attributes)
    return el("span", *children, **attributes) if attributes else joined(*children)


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]], cls: str = "", targets: Sequence[str] = ()) -> Html:
    """`targets`: where each row leads, for the keyboard."""
    head = el("tr", *(el("th", column, scope="col") for column in columns))
    body = []
    for number, row in enumerate(rows):
        target = targets[number] if number < len(targets) else None
        body.append(
            el(
                "tr",
                *(el("td", cell) for cell in row),
                data_row=bool(target),
                data_href=target or None,
                tabindex="-1" if target else None,
            )
        )
    return el("div", el("table", el("thead", head), el("tbody", *body), cls=cls or None), cls="scroll")


def report_table(found: ReportTable) -> Html:
    return section(found.title, table(found.columns, found.rows), el("p", found.caption, cls="note") if found.caption else "")


def facts(rows: Iterable[tuple[str, Any]]) -> Html:
    return el("dl", *(joined(el("dt", name), el("dd", value)) for name, value in rows if value not in (None, "")))


def code(text: str, cls: str = "") -> Html:
    shown = text[:MOST_SHOWN].replace("\r\n", "\n")
    cut = (
        el("p", f"Cut here: {len(text) - MOST_SHOWN:,} more characters are in the file.", cls="note")
        if len(text) > MOST_SHOWN
        else ""
    )
    return joined(el("pre", shown, cls=cls or None, tabindex="0"), cut)


def words(text: str) -> Html:
    """A longer text that is no code: its lines are kept and wrapped."""
    return code(text, "words")


def section(title: str, *children: Any, id_: str = "") -> Html:
    return el("section", el("h2", title), *children, id=id_ or None)


def folded(title: Any, *children: Any, id_: str = "", open_: bool = False) -> Html:
    return el("details", el("summary", title), *children, id=id_ or None, open=open_)


def charts(*plots: Plot) -> Html:
    """Those in which there is anything to draw."""
    drawn = [
        el("figure", Html(plot.svg()), el("figcaption", plot.caption) if plot.caption else "")
        for plot in plots
        if not plot.empty
    ]
    return el("div", *drawn, cls="charts") if drawn else Html("")


def badge(word: str, more: str = "") -> Html:
    """An outcome or a state; its class gives the colour, and only a known word is a class."""
    kind = word.partition(" ")[0]
    return el("span", one_line(word, 60), more, cls=f"badge {KINDS.get(kind, 'plain')}")


KINDS = {
    "faster": "good", "same": "plain", "slower": "weak", "ambiguous": "weak", "incorrect": "bad", "compile_error": "bad", "runtime_error": "bad",
    "timeout": "bad", "rejected": "worst", "invalid_task": "plain", "no_kernel": "bad", "running": "live", "stopped": "weak", "admitted": "good",
    "proposed": "plain", "retired": "weak", "refused": "bad", "win": "good", "loss": "bad",
}  # fmt: skip


def choice(name: str, label: str, options: Iterable[str], now: str) -> Html:
    """A field to pick one of several; `label` is what it says while none is picked."""
    rest = [el("option", one_line(each, 120) or "(none)", value=each, selected=each == now) for each in options]
    return el("select", el("option", label, value=""), *rest, name=name, aria_label=label)


def moment(at: float) -> Html | str:
    """A time that the page's script keeps up to date as an age."""
    if not 0 < at < 32_503_680_000:
        return ""
    told = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
    return el("time", f"{told} UTC", datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)))


def speed(span: tuple[float, float | None, float | None] | None) -> str:
    if span is None:
        return ""
    point, low, high = span
    if low is None or high is None:
        return f"{point:.2f}×"
    return f"{point:.2f}× ({interval_text(low, high)})"


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def seconds(value: float) -> str:
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
