"""The dashboard as an ASGI application: it answers GET and nothing else, and every answer says what it may load and run.

A page's ETag follows from the sizes and times of the files that it shows. A page that is open asks for itself again every two seconds; while
nothing has grown, the answer is 304 and costs a few `stat` calls. So pages are live without a connection that stays open, and any proxy will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from bottega import __version__
from bottega.service.dashboard.compare_view import compare_view
from bottega.service.dashboard.html import Html, el
from bottega.service.dashboard.open_run import EVENTS, SUBLOG, Runs
from bottega.service.dashboard.page import POLICY, Asked, Links, page
from bottega.service.dashboard.runs_view import list_tag, runs_view
from bottega.service.dashboard.views import crumbs, run_view

STATIC = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}


def dashboard_app(folders: Sequence[Path]) -> Starlette:
    """To be served alone or mounted in another application; `folders` are looked through for run directories."""
    runs = Runs(folders)

    def listed(request: Request) -> Response:
        links, asked = _links(request), _asked(request)
        tag = list_tag(runs)
        return _known(request, tag) or _page("Runs", [("runs", "")], runs_view(runs, asked, links), links, tag)

    def one(request: Request) -> Response:
        links, asked = _links(request), _asked(request)
        run = runs.get(request.path_params["run"])
        if run is None:
            return _missing(links)
        run.refresh()
        tag = run.tag(*_more(run.folder, asked))
        return _known(request, tag) or _page(run.id, crumbs(run, asked, links), run_view(run, asked, links), links, tag)

    def compared(request: Request) -> Response:
        links, asked = _links(request), _asked(request)
        picked = request.query_params.getlist("run")
        if len(picked) >= 2 and not asked.text("a"):
            asked = Asked({"a": picked[0], "b": picked[1]})
        tag = "-".join(run.refresh().tag() for name in ("a", "b") if (run := runs.get(asked.text(name))) is not None)
        trail = [("runs", links.runs()), ("compare", "")]
        return _known(request, tag) or _page("Compare", trail, compare_view(runs, asked, links), links, tag)

    def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("not found", 404, HEADERS)
        content = (files("bottega.service.dashboard") / "static" / name).read_bytes()
        known = _known(request, __version__ + str(len(content)))
        return known or Response(content, 200, {**HEADERS, "ETag": f'"{__version__}{len(content)}"'}, STATIC[name])

    def failed(request: Request, error: Exception) -> Response:
        """A fault of ours. Its trace is in the server's own log: a page may be read by strangers."""
        told = f"An error in Bottega itself ({type(error).__name__}), please report it with what the server's log says."
        return HTMLResponse(page("Error", [("runs", _links(request).runs())], el("p", told), _links(request)), 500, HEADERS)

    def nowhere(request: Request, error: Exception) -> Response:
        return _missing(_links(request))

    return Starlette(
        routes=[
            Route("/", listed, methods=["GET"]),
            Route("/compare", compared, methods=["GET"]),
            Route("/static/{name}", static, methods=["GET"]),
            Route("/run/{run:path}", one, methods=["GET"]),
        ],
        exception_handlers={404: nowhere, Exception: failed},
    )


def _links(request: Request) -> Links:
    return Links(str(request.scope.get("root_path", "")).rstrip("/"))


def _asked(request: Request) -> Asked:
    return Asked(dict(list(request.query_params.items())[:40]))


def _more(folder: Path, asked: Asked) -> list[Path]:
    """Further files that a view shows."""
    log = asked.text("log") or (f"steps/{asked.whole('step'):06}" if asked.text("step") else "")
    found = [folder / log / EVENTS] if SUBLOG.fullmatch(log) else []
    if asked.text("of") in ("library", "proofs"):
        found += [folder / asked.text("of") / name for name in ("library.db", "library.db-wal")]
    return found


def _known(request: Request, tag: str) -> Response | None:
    """304 where the reader has just this."""
    seen = request.headers.get("if-none-match", "")
    return Response(status_code=304, headers={**HEADERS, "ETag": f'"{tag}"'}) if f'"{tag}"' in seen else None


def _page(title: str, trail: Sequence[tuple[str, str]], body: Html, links: Links, tag: str) -> Response:
    content = page(title, trail, body, links, tag).encode("utf-8", "replace")
    return Response(content, 200, {**HEADERS, "ETag": f'"{tag}"'}, "text/html; charset=utf-8")


def _missing(links: Links) -> Response:
    body = el("p", "Nothing is here. The run may have been moved or removed since the list was read.")
    return HTMLResponse(page("Not found", [("runs", links.runs())], body, links), 404, HEADERS)
