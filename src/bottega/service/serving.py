"""A server from its settings: opens the judges and the store, listens, and stops cleanly.

Without a token file it listens on this machine only; any other address is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bottega.core.errors import UsageError
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.judge.machine import Workers
from bottega.service.dispatcher import Dispatcher, Keeping
from bottega.service.http_guard import LOOPBACK
from bottega.service.known_tasks import KnownTasks
from bottega.service.server import ServedParts, create_app
from bottega.service.skill_search import SkillSearch
from bottega.service.store import Store
from bottega.service.tokens import NoTokens, TokenFile

HEAD_SECONDS, KEPT_SECONDS = 15.0, 30.0
"""Within which a connection must have sent the head of its first request; and of its next one, or have read some of its answer."""
LOOK_SECONDS = 3.0
ANSWER_SECONDS = 5
"""What answers under way have to go out when the server stops."""


@dataclass(frozen=True)
class ServerOptions:
    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    devices: tuple[str, ...] = ("cpu",)
    token_file: Path | None = None
    workers: Workers = "auto"
    require_sandbox: bool = False
    memory_gb: float = 0.0
    keeping: Keeping = field(default_factory=Keeping)
    connections: int = 1000
    tasks: tuple[str, ...] = ()
    library: Path | None = None
    dashboard: Any = None
    device_host: DeviceHost = LOCAL


def run_server(options: ServerOptions, say: Callable[[str], None], on_stop: Callable[[Callable[[], None]], None]) -> None:
    """Returns when it was stopped. `on_stop` is given the function that stops it, inside the running event loop."""
    asyncio.run(_serve(options, say, on_stop))


async def _serve(options: ServerOptions, say: Callable[[str], None], on_stop: Callable[[Callable[[], None]], None]) -> None:
    tokens = TokenFile(options.token_file) if options.token_file is not None else NoTokens()
    refuse_open_address(options.host, isinstance(tokens, TokenFile))
    named = [device if device != "cuda" else "cuda:0" for device in options.devices]
    if not named or len(set(named)) < len(named):
        raise UsageError(f"--device {','.join(options.devices)}: name devices once each, such as cpu, cuda or cuda:0,cuda:1")
    listening = bound_socket(options.host, options.port)
    store = Store(options.folder)
    judges = {
        device: options.device_host.judge(
            device, workers=options.workers, require_sandbox=options.require_sandbox, memory_gb=options.memory_gb, warn=say
        )
        for device in options.devices
    }
    dispatcher = Dispatcher(store, judges, tokens, options.keeping)
    tasks = {
        kind: KnownTasks(options.tasks, "cpu" if kind == "cpu" else "gpu")
        for kind in {each.partition(":")[0] for each in judges}
    }
    for known in tasks.values():
        await asyncio.to_thread(
            lambda one: one.tasks, known
        )  # says now what cannot be loaded, and keeps no request waiting for it
    skills = SkillSearch(options.library, options.folder / "skills")
    app = create_app(ServedParts(dispatcher, tokens, tasks, skills, options.dashboard, options.device_host))
    config = guarded_config(app, options.connections)
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    who = f"tokens of {options.token_file}" if options.token_file is not None else "this machine only, without tokens"
    server = Server(config, lambda: say(f"judging on {', '.join(judges)} at {address} ({who}); API: {address}/docs"))

    def stop() -> None:
        dispatcher.stop_waiting()
        server.should_exit = True

    on_stop(stop)
    try:
        await server.serve(sockets=[listening])
    finally:
        skills.close()


def guarded_config(app: Any, connections: int) -> uvicorn.Config:
    """For an application behind the guard: heads, idle connections and their number are bounded."""
    return uvicorn.Config(
        app, http=PromptConnection, ws="none", lifespan="on", log_level="warning", access_log=False, server_header=False,
        limit_concurrency=connections, timeout_keep_alive=30, timeout_graceful_shutdown=ANSWER_SECONDS,
        h11_max_incomplete_event_size=16 << 10, backlog=1024,
    )  # fmt: skip


def refuse_open_address(host: str, has_tokens: bool) -> None:
    """Raises for an address that others could reach, where everybody who does would be let in."""
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host in LOOPBACK
    if not inside and not has_tokens:
        raise UsageError(
            f"--host {host}: others can reach that address, and without tokens everyone would be let in. Give --token-file FILE "
            "(bottega serve --token-file FILE --add-token NAME makes one), or listen on 127.0.0.1"
        )


def bound_socket(host: str, port: int) -> socket.socket:
    """Bound before the judges are opened: a port that is taken is told at once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(found[0], found[1])
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[4])
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there: {error.strerror or error}") from None
    return listening


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # what signals do is the command's matter


class PromptConnection(H11Protocol):
    """A connection on which nothing is asked and answered for a while is closed, whatever trickles in: an incomplete head, or the rest of a body
    that was answered already. So is one that does not read its answer. uvicorn itself would keep them for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self._read_at = self.loop.time()
        self._unread, self._patience = 0, HEAD_SECONDS
        self._look_later()

    def on_response_complete(self) -> None:
        self._idle_since, self._patience = self.loop.time(), KEPT_SECONDS
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if unread == 0 or unread < self._unread:
            self._read_at = now
        self._unread = unread
        asked = self.cycle is not None and not self.cycle.response_complete
        if now - self._read_at > KEPT_SECONDS:
            self.transport.abort()
        elif not asked and now - self._idle_since > self._patience:
            self.transport.close()
        else:
            self._look_later()
