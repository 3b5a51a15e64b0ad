"""A run as one HTML file to be shared: the dashboard's own views of it, one below the other, linked. Nothing in it runs or is fetched.

The overview comes first, then what it links to, and what that links to, until the file is long enough; what is left out is said.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import deque
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from bottega import __version__
from bottega.core.errors import UsageError
from bottega.core.foreign_text import one_line
from bottega.service.dashboard.discover import RunFinder
from bottega.service.dashboard.events_view import log_overview
from bottega.service.dashboard.html import Html, el, folded, joined
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links
from bottega.service.dashboard.views import OVERVIEWS, VIEWS

MOST_VIEWS = 400
MOST_BYTES = 24 << 20
ROWS = 1000
"""Of a list, where a page of the dashboard has fewer."""
LEFT_OUT = frozenset({"", "events"})
"""Views that are not followed: lists of everything."""


@dataclass(frozen=True)
class FileLinks(Links):
    """Links inside of the file. Those to what it does not hold are no links."""

    known: frozenset[str] = frozenset()
    wanted: dict[str, dict[str, str]] = field(default_factory=dict)
    """By anchor, the views that were linked to, in order."""

    def runs(self) -> str:
        return ""

    def compare(self, run: str = "") -> str:
        return ""

    def run(self, run: str, **asked: Any) -> str:
        query = {name: str(value) for name, value in asked.items() if value not in ("", None)}
        if query.get("view", "") in LEFT_OUT or "page" in query:
            return ""
        anchor = "v" + hashlib.sha256(repr(sorted(query.items())).encode("utf-8", "replace")).hexdigest()[:12]
        self.wanted.setdefault(anchor, query)
        return f"#{anchor}" if anchor in self.known else ""


def exported(folder: Path) -> str:
    """Raises `UsageError` where no run is."""
    found = next((each for each in RunFinder([folder]).runs().values() if each.folder == Path(folder).absolute()), None)
    if found is None:
        raise UsageError(f"{folder}: is no run directory; give the folder of one run")
    run = OpenRun(found).refresh()
    while run.unread:
        run.refresh()
    chosen, left = _chosen(run)
    links = FileLinks(known=frozenset(chosen))
    parts = [el("h1", one_line(run.id, 120)), _shown(run, {}, links)]
    for anchor, query in chosen.items():
        title = " ".join(one_line(value, 80) for name, value in query.items() if name not in ("of", "log"))
        parts.append(folded(title, el("div", _shown(run, query, links), id=anchor)))
    if left:
        parts.append(el("p", f"{left:,} more views are left out of this file; `bottega dashboard` shows all.", cls="note"))
    return _file(run, joined(*parts))


def _chosen(run: OpenRun) -> tuple[dict[str, dict[str, str]], int]:
    """By anchor the views that the file holds, and how many more were linked to."""
    chosen: dict[str, dict[str, str]] = {}
    first = FileLinks()
    size = len(_shown(run, {}, first))
    waiting = deque(first.wanted.items())
    while waiting and len(chosen) < MOST_VIEWS and size < MOST_BYTES:
        anchor, query = waiting.popleft()
        if anchor in chosen:
            continue
        links = FileLinks()
        size += len(_shown(run, query, links))
        chosen[anchor] = query
        waiting.extend(links.wanted.items())
    return chosen, len({anchor for anchor, _ in waiting} - chosen.keys())


def _shown(run: OpenRun, query: dict[str, str], links: Links) -> Html:
    asked = Asked({**query, "size": str(ROWS)})
    view = query.get("view", "")
    return (VIEWS[view] if view in VIEWS else OVERVIEWS.get(run.kind, log_overview))(run, asked, links)


def _file(run: OpenRun, body: Html) -> str:
    style = (files("bottega.service.dashboard") / "static" / "dashboard.css").read_text(encoding="utf-8")
    style += "\n.filter, .tabs { display: none; }\n"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{one_line(run.id, 80)} · Bottega"),
        el("style", Html(style)),
    )
    foot = el("footer", f"Written by bottega dashboard --export, Bottega {__version__}.")
    plain = re.sub(r'<form .*?</form>|<input type="checkbox"[^>]*>', "", el("main", body), flags=re.S)
    return f"<!doctype html>\n{el('html', head, el('body', Html(plain), foot), lang='en')}\n"
