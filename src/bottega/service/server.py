"""The HTTP interface of the judge: routes, and how records and errors look on the wire. What they do is in `dispatcher.py`."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from bottega import __version__
from bottega.core.errors import BottegaError, UsageError
from bottega.core.foreign_text import one_line
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.service.answers import device_rows, events, metrics_text, record_json, row_json
from bottega.service.api_page import api_page
from bottega.service.dispatcher import Dispatcher, NoRoom
from bottega.service.http_guard import OPEN_TO_ALL, HttpGuard
from bottega.service.intake import Intake
from bottega.service.known_tasks import KnownTasks
from bottega.service.records import ENDED, Kind, Record
from bottega.service.records import Request as JudgeRequest
from bottega.service.requests import CheckBody, ProbeBody, VerdictBody
from bottega.service.skill_search import SkillSearch
from bottega.service.tokens import NoTokens, Token, TokenFile
from bottega.service.validation import sentences

LOG = logging.getLogger(__name__)
LONGEST_WAIT = 120.0
Wait = Annotated[
    float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end; then it is answered as it stands.")
]
ABOUT = (
    "Is a kernel right, is it faster, is it honest? Send a task and a candidate; the verdict is the same JSON as `bottega judge --json` prints. "
    "The same request has the same id and is judged once. Send your token as `Authorization: Bearer TOKEN`."
)

FRONT = f"""\
Bottega {__version__}, a judge for GPU and CPU kernels: is a kernel right, is it faster than PyTorch, is it honest?

Routes, fields and an example   /docs          (for programs: /openapi.json)
Is the server up?               /healthz
Judge from a laptop             bottega judge builtin:star_relu kernel.py --server THIS_ADDRESS

Where the server has tokens, everything else needs one: `Authorization: Bearer TOKEN`, or BOTTEGA_TOKEN for the command.
"""


@dataclass
class ServedParts:
    """What the routes work with."""

    dispatcher: Dispatcher
    tokens: TokenFile | NoTokens = field(default_factory=NoTokens)
    tasks: Mapping[str, KnownTasks] = field(default_factory=dict)
    """By the kind of device: built-in tasks have other sizes on a GPU."""
    skills: SkillSearch | None = None
    dashboard: Any = None
    """An ASGI application that is served under `/`, behind the same gate."""
    device_host: DeviceHost = LOCAL


def create_app(parts: ServedParts) -> Any:
    """The ASGI application, gate included."""
    dispatcher = parts.dispatcher
    intake = Intake(dispatcher.store, tuple(dispatcher.judges), parts.tasks)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await dispatcher.open()
        try:
            yield
        finally:
            await dispatcher.close()

    app = FastAPI(
        title="Bottega",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _errors(app)

    @app.get("/healthz", summary="Whether the server is up")
    async def healthz() -> dict[str, Any]:
        return {"ok": True, "version": __version__, "judge": JUDGE_VERSION, "stopping": dispatcher.stopping}

    @app.post("/v1/verdicts", summary="Have a candidate judged", status_code=202)
    async def post_verdict(body: VerdictBody, request: Request, wait: Wait = 0.0) -> JSONResponse:
        return await _submitted(dispatcher, intake.verdict(body, _token(request)), wait)

    @app.post("/v1/tasks/check", summary="Have a task's fitness checked: can it be judged fairly?", status_code=202)
    async def post_check(body: CheckBody, request: Request, wait: Wait = 0.0) -> JSONResponse:
        return await _submitted(dispatcher, intake.check(body, _token(request)), wait)

    @app.get("/v1/verdicts", summary="Your verdicts, the newest first; the next page comes with ?before=NEXT")
    async def list_verdicts(
        request: Request,
        count: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[str, Query(max_length=64, description="`next` of the page before.")] = "",
    ) -> dict[str, Any]:
        last = await _own(dispatcher, before, request, "verdict") if before else None
        found = await dispatcher.listed(_token(request).name, "verdict", last, count)
        rows = [row_json(dispatcher, record) for record in found]
        return {"verdicts": rows, "next": found[-1].id if len(found) == count else None}

    @app.get("/v1/tasks", summary="Tasks that the server has, by the name under which you may send them")
    async def list_tasks(device: Annotated[str, Query(max_length=20)] = "") -> dict[str, Any]:
        return {"tasks": parts.tasks[intake.devices_named(device or None)[0].partition(":")[0]].rows()}

    @app.post(
        "/v1/probes",
        summary="What delivering a kernel asks beside the device; for `bottega optimize server=URL`",
        status_code=202,
    )
    async def post_probe(body: ProbeBody, request: Request, wait: Wait = 0.0) -> JSONResponse:
        return await _submitted(dispatcher, intake.probe(body, _token(request)), wait)

    @app.get("/v1/probes/{id}", summary="What a probe found, or how far it is")
    async def get_probe(id: str, request: Request, wait: Wait = 0.0) -> JSONResponse:
        record = await dispatcher.ended(await _own(dispatcher, id, request, "probe"), wait)
        return _answer(dispatcher, record)

    @app.delete("/v1/probes/{id}", summary="Cancel a probe, also while it runs")
    async def delete_probe(id: str, request: Request) -> JSONResponse:
        return await _cancelled(dispatcher, await _own(dispatcher, id, request, "probe"))

    @app.get("/v1/verdicts/{id}", summary="A verdict, or how far it is")
    async def get_verdict(id: str, request: Request, wait: Wait = 0.0) -> JSONResponse:
        record = await dispatcher.ended(await _own(dispatcher, id, request, "verdict"), wait)
        return _answer(dispatcher, record)

    @app.get("/v1/tasks/check/{id}", summary="A task's fitness, or how far its check is")
    async def get_check(id: str, request: Request, wait: Wait = 0.0) -> JSONResponse:
        record = await dispatcher.ended(await _own(dispatcher, id, request, "check"), wait)
        return _answer(dispatcher, record)

    @app.get(
        "/v1/verdicts/{id}/events",
        summary="Its states as server-sent events, the last with the verdict",
        response_class=StreamingResponse,
    )
    async def get_events(id: str, request: Request) -> StreamingResponse:
        record = await _own(dispatcher, id, request, "verdict")
        return StreamingResponse(
            events(dispatcher, record), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @app.delete("/v1/verdicts/{id}", summary="Cancel it, also while it runs")
    async def delete_verdict(id: str, request: Request) -> JSONResponse:
        return await _cancelled(dispatcher, await _own(dispatcher, id, request, "verdict"))

    @app.delete("/v1/tasks/check/{id}", summary="Cancel a check, also while it runs")
    async def delete_check(id: str, request: Request) -> JSONResponse:
        return await _cancelled(dispatcher, await _own(dispatcher, id, request, "check"))

    @app.get("/v1/skills", summary="Search the skill library")
    async def skills(
        q: Annotated[str, Query(min_length=1, max_length=1000)],
        count: Annotated[int, Query(ge=1, le=50)] = 10,
        state: Annotated[str, Query(pattern="^(admitted|proposed|all)$")] = "all",
    ) -> dict[str, Any]:
        if parts.skills is None:
            raise HTTPException(404, "this server has no skill library")
        return {"skills": await asyncio.to_thread(parts.skills.search, q, count, state)}

    @app.get("/v1/devices", summary="Devices, what they are, and how long their queues are")
    async def devices() -> dict[str, Any]:
        return {"devices": await asyncio.to_thread(device_rows, dispatcher, parts.device_host)}

    @app.get("/metrics", summary="For Prometheus", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(await asyncio.to_thread(metrics_text, dispatcher), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    @app.api_route("/v1/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    async def unknown(rest: str) -> JSONResponse:
        raise HTTPException(404, "there is no such route, or not with this method; /docs lists them")

    if parts.dashboard is not None:
        app.mount("/", parts.dashboard)
        return HttpGuard(app, parts.tokens, dispatcher.metrics)

    @app.get("/", include_in_schema=False)
    async def front() -> PlainTextResponse:
        return PlainTextResponse(FRONT)

    return HttpGuard(app, parts.tokens, dispatcher.metrics, open_to_all=OPEN_TO_ALL | {"/"})


def _errors(app: FastAPI) -> None:
    """Every error is `{"error": TEXT}`. What a stranger sent is repeated only as a bounded line."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": one_line(sentences(error.errors()), 1000)}, 422)

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> JSONResponse:
        return JSONResponse({"error": one_line(str(error.detail), 1000)}, error.status_code, error.headers)

    @app.exception_handler(NoRoom)
    async def busy(request: Request, error: NoRoom) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.seconds)})

    @app.exception_handler(sqlite3.Error)
    async def broken(request: Request, error: sqlite3.Error) -> JSONResponse:
        LOG.error("results cannot be kept: %s", error)
        return JSONResponse({"error": "the server cannot keep results now; ask again later"}, 503, {"Retry-After": "10"})

    @app.exception_handler(BottegaError)
    async def wrong(request: Request, error: BottegaError) -> JSONResponse:
        return JSONResponse({"error": one_line(str(error), 1000)}, 422 if isinstance(error, UsageError) else 500)


def _token(request: Request) -> Token:
    token: Token = request.state.token
    return token


async def _submitted(dispatcher: Dispatcher, asked: JudgeRequest, wait: float) -> JSONResponse:
    return _answer(dispatcher, await dispatcher.ended(await dispatcher.submit(asked), wait))


async def _own(dispatcher: Dispatcher, id: str, request: Request, kind: Kind) -> Record:
    """The record, if it is the token's own: of others' it is not even said that they exist."""
    record = await dispatcher.get(id[:64])
    if record is None or record.token != _token(request).name or record.kind != kind:
        raise HTTPException(404, "there is no such id; results are kept for a while only, so send the request again")
    return record


async def _cancelled(dispatcher: Dispatcher, record: Record) -> JSONResponse:
    await dispatcher.cancel(record.id)
    return _answer(dispatcher, await dispatcher.get(record.id) or record, 200)


def _answer(dispatcher: Dispatcher, record: Record, status: int | None = None) -> JSONResponse:
    return JSONResponse(record_json(dispatcher, record), status or (200 if record.state in ENDED else 202))
