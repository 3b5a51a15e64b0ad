"""What all pages share: addresses, the frame around a page, and how nested data is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from bottega import __version__
from bottega.core.foreign_text import one_line
from bottega.service.dashboard.html import Html, code, el, facts, folded, joined, link, number

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No inline script and no inline style, so that markup which slipped through would do nothing."""
PAGE = 100
"""Rows of a long list on one page."""
MOST_ROWS = 2000
"""Rows that `size` in an address may ask for."""
KEYS = (("j / k", "next or previous row"), ("Enter", "open the row"), ("u", "up"), ("/", "filter"), ("p", "hold or go on with live updates"),
        ("?", "these keys"))  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The query of a request: strings from outside, taken as what they should be or left out."""

    values: Mapping[str, str]

    def text(self, name: str, longest: int = 400) -> str:
        return self.values.get(name, "")[:longest]

    def whole(self, name: str) -> int:
        value = self.values.get(name, "")
        return int(value) if value.isdecimal() and len(value) < 16 else 0

    def with_(self, **changes: Any) -> dict[str, str]:
        merged = {**self.values, **{name: str(value) for name, value in changes.items()}}
        return {name: value for name, value in merged.items() if value != ""}


@dataclass(frozen=True)
class Links:
    """Addresses of all views."""

    base: str = ""
    """What the application is mounted under."""

    def runs(self) -> str:
        return f"{self.base}/"

    def run(self, run: str, **asked: Any) -> str:
        query = urlencode({name: value for name, value in asked.items() if value not in ("", None)}, errors="replace")
        return f"{self.base}/run/{quote(run, errors='replace')}{'?' if query else ''}{query}"

    def compare(self, run: str = "") -> str:
        return f"{self.base}/compare" + ("?" + urlencode({"a": run}, errors="replace") if run else "")

    def static(self, name: str) -> str:
        return f"{self.base}/static/{name}"


def page(title: str, crumbs: Sequence[tuple[str, str]], body: Html, links: Links, tag: str = "") -> str:
    """`tag`: what the page's script asks the server about; without one the page is not live."""
    trail = [el("li", link(target, one_line(name, 80)) if target else one_line(name, 80)) for name, target in crumbs]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{one_line(title, 80)} · Bottega"),
        el("link", rel="icon", href=links.static("icon.svg")),
        el("link", rel="stylesheet", href=links.static("dashboard.css")),
        el("script", src=links.static("dashboard.js"), defer=True),
    )
    keys = el("dialog", el("h2", "Keys"), facts(KEYS), el("form", el("button", "Close"), method="dialog"), id="keys")
    where = el("nav", el("ol", *trail), aria_label="Where you are")
    frame = (
        el("header", where, el("span", "", id="live", role="status"), el("button", "?", id="help", title="Keys", type="button")),
        el("main", body, id="main", data_tag=tag or None),
        keys,
        el("footer", f"Bottega {__version__}. It only reads run directories."),
    )  # fmt: skip
    return f"<!doctype html>\n{el('html', head, el('body', *frame), lang='en')}\n"


def warned(warnings: Sequence[str]) -> Html:
    return el("ul", *(el("li", text) for text in warnings), cls="warnings") if warnings else Html("")


def pages(count: int, asked: Asked, target: Any, size: int = PAGE) -> tuple[slice, Html]:
    """Which part of so many rows is asked for, and links to the others. `target` makes an address of a query."""
    size = min(asked.whole("size"), MOST_ROWS) or size
    last = max(0, (count - 1) // size)
    now = min(asked.whole("page"), last)
    part = slice(now * size, (now + 1) * size)
    if not last:
        return part, Html("")
    places = sorted({0, last, *(place for place in range(now - 2, now + 3) if 0 <= place <= last)})
    found = [
        el("span", str(place + 1), cls="now") if place == now else link(target(**asked.with_(page=place)), str(place + 1))
        for place in places
    ]
    return part, el("nav", f"{count:,} rows, page ", *_spaced(found), cls="pages", aria_label="Pages")


def _spaced(parts: Sequence[Any]) -> list[Any]:
    return [word for part in parts for word in (part, " ")]


def tree(value: Any, deepest: int = 5, most: int = 60) -> Html:
    """Nested data as nested lists, as far as a reader can take it."""
    if isinstance(value, dict) and value and deepest:
        rows = [(one_line(str(name), 60), tree(item, deepest - 1, most)) for name, item in list(value.items())[:most]]
        more = el("p", f"and {len(value) - most} more", cls="note") if len(value) > most else ""
        return joined(el("dl", *(joined(el("dt", name), el("dd", item)) for name, item in rows), cls="tree"), more)
    if isinstance(value, list) and value and deepest:
        if all(isinstance(item, str | int | float | bool) or item is None for item in value):
            text = ", ".join(_plain(item) for item in value[:most])
            return joined(text[:4000], f" … {len(value) - most} more" if len(value) > most else "")
        return el("ol", *(el("li", tree(item, deepest - 1, most)) for item in value[:most]), cls="tree")
    return joined(_plain(value))


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return number(float(value)) if abs(value) < 1e300 else "a huge number"
    return value[:4000] if isinstance(value, str) else "…" if value else "none"


def raw(value: Any, title: str = "As it is in the file") -> Html:
    """The JSON itself, folded away."""
    return folded(title, code(json.dumps(value, indent=1, ensure_ascii=False)))
