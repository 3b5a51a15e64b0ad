"""The HTTP interface of the judge: routes, and how records and errors look on the wire. What they do is in `dispatcher.py`."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
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
from bottega.judge.device_facts import device_facts
from bottega.judge.fingerprint import JUDGE_VERSION, fingerprint
from bottega.languages import LANGUAGES
from bottega.service.api_page import api_page
from bottega.service.dispatcher import Dispatcher, NoRoom
from bottega.service.gate import Gate
from bottega.service.known_tasks import KnownTasks
from bottega.service.requests import CheckBody, TaskBody, VerdictBody, named
from bottega.service.skill_search import SkillSearch
from bottega.service.store import ENDED, Kind, Record
from bottega.service.store import Request as JudgeRequest
from bottega.service.tokens import NoTokens, Token, TokenFile

LOG = logging.getLogger(__name__)
LONGEST_WAIT = 120.0
PING_SECONDS = 15.0
Wait = Annotated[
    float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end; then it is answered as it stands.")
]
ABOUT = (
    "Is a kernel right, is it faster, is it honest? Send a task and a candidate; the verdict is the same JSON as `bottega judge --json` prints. "
    "The same request has the same id and is judged once. Send your token as `Authorization: Bearer TOKEN`."
)


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


def create_app(parts: ServedParts) -> Any:
    """The ASGI application, gate included."""
    dispatcher = parts.dispatcher

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
        token = _token(request)
        language = body.candidate.language
        if language is not None and language not in LANGUAGES.names:
            raise HTTPException(422, f"candidate.language: no such language; use {', '.join(LANGUAGES.names)}")
        _refuse_long(body.candidate.source, "candidate.source", token)
        asked = _asked(
            parts,
            "verdict",
            body,
            token,
            candidate=body.candidate.source,
            candidate_name=named(body.candidate.name),
            language=language or "",
        )
        return await _submitted(parts, asked, wait)

    @app.post("/v1/tasks/check", summary="Have a task's fitness checked: can it be judged fairly?", status_code=202)
    async def post_check(body: CheckBody, request: Request, wait: Wait = 0.0) -> JSONResponse:
        return await _submitted(parts, _asked(parts, "check", body, _token(request)), wait)

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
    async def events(id: str, request: Request) -> StreamingResponse:
        record = await _own(dispatcher, id, request, "verdict")
        return StreamingResponse(
            _events(dispatcher, record), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
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
        return {"devices": await asyncio.to_thread(_device_rows, dispatcher)}

    @app.get("/metrics", summary="For Prometheus", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(await asyncio.to_thread(_metrics, dispatcher), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    if parts.dashboard is not None:
        app.mount("/", parts.dashboard)
    return Gate(app, parts.tokens, dispatcher.metrics)


def _errors(app: FastAPI) -> None:
    """Every error is `{"error": TEXT}`. What a stranger sent is repeated only as a bounded line."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        told = [f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}" for each in error.errors()[:5]]
        return JSONResponse({"error": one_line("; ".join(told), 1000)}, 422)

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


def _refuse_long(source: str, name: str, token: Token) -> None:
    if len(source.encode(errors="surrogatepass")) > token.limits.source_bytes:
        raise HTTPException(413, f"{name}: larger than the {token.limits.source_kib} KiB that this token may send")


def _asked(parts: ServedParts, kind: Kind, body: CheckBody, token: Token, **more: str) -> JudgeRequest:
    devices = _devices(parts.dispatcher, body.device)
    source, name = _task(parts, body.task, token, devices[0].partition(":")[0])
    return JudgeRequest(
        token.name,
        kind,
        devices,
        source,
        name,
        settings=body.settings.text(devices[0]),
        priority=body.priority,
        run=body.run,
        **more,
    )


def _devices(dispatcher: Dispatcher, wanted: str | None) -> tuple[str, ...]:
    """One that is named, or all of a kind."""
    names = tuple(dispatcher.judges)
    wanted = wanted or names[0].partition(":")[0]
    found = (wanted,) if wanted in names else tuple(name for name in names if name.partition(":")[0] == wanted)
    if not found:
        raise HTTPException(422, f"device: this server judges on {', '.join(names)}, not on {one_line(wanted, 40)}")
    return found


def _task(parts: ServedParts, body: TaskBody, token: Token, kind: str) -> tuple[str, str]:
    """The task's text and name. A token that may not send tasks of its own may name, or send, those that the server has."""
    known = parts.tasks[kind]
    if body.id is not None:
        if (task := known.get(body.id)) is not None:
            return task.source, task.label
        if (found := parts.dispatcher.store.task_source(token.name, body.id)) is not None and token.limits.own_tasks:
            return found
        raise known.unknown(body.id)
    assert body.source is not None
    _refuse_long(body.source, "task.source", token)
    if not token.limits.own_tasks and not known.has_source(body.source):
        told = "this token may not send tasks of its own, only name tasks that the server has; its operator may set own_tasks = true for it"
        raise HTTPException(403, told)
    return body.source, named(body.name)


async def _submitted(parts: ServedParts, asked: JudgeRequest, wait: float) -> JSONResponse:
    record = await parts.dispatcher.submit(asked)
    return _answer(parts.dispatcher, await parts.dispatcher.ended(record, wait))


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


def record_json(dispatcher: Dispatcher, record: Record) -> dict[str, Any]:
    """A record as clients see it."""
    told: dict[str, Any] = {"id": record.id, "state": record.state, "accepted": _moment(record.accepted)}
    if record.state == "queued" and record.id in dispatcher.queue:
        told["ahead"] = dispatcher.queue.ahead(record.id)
    if record.device:
        told["device"] = record.device
    if record.started is not None:
        told["seconds"] = round((record.ended or time.time()) - record.started, 3)
    if record.task_id:
        told["task_id"] = record.task_id
    if record.result is not None:
        told["verdict" if record.kind == "verdict" else "report"] = record.result
    if record.error:
        told["error"] = record.error
    return told


async def _events(dispatcher: Dispatcher, record: Record) -> AsyncIterator[str]:
    """A line that means nothing comes now and then, so that nobody on the way takes the connection for dead."""
    last = ""
    while True:
        told = json.dumps(record_json(dispatcher, record))
        if told != last:
            last = told
            yield f"event: {record.state}\ndata: {told}\n\n"
        else:
            yield ": still there\n\n"
        if record.state in ENDED or dispatcher.stopping:
            return
        record = await dispatcher.changed(record, PING_SECONDS)


def _device_rows(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "lanes": judge.lanes,
            "queued": dispatcher.queue.length(name),
            "running": dispatcher.running(name),
            "facts": device_facts(name).to_json(),
            "fingerprint": fingerprint(name),
        }
        for name, judge in dispatcher.judges.items()
    ]


def _metrics(dispatcher: Dispatcher) -> str:
    judges = dispatcher.judges.items()
    return dispatcher.metrics.text(
        {
            "bottega_queue_length": [({"device": name}, dispatcher.queue.length(name)) for name, _ in judges],
            "bottega_running": [({"device": name}, dispatcher.running(name)) for name, _ in judges],
            "bottega_lanes": [({"device": name}, judge.lanes) for name, judge in judges],
            "bottega_store_bytes": [({}, dispatcher.store.bytes())],
        }
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
