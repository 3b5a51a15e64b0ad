"""The two ways in: standard input and output of a process that the agent starts, or streamable HTTP behind the same gate as `bottega serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from bottega.service.http_guard import HttpGuard
from bottega.service.limits import OF_LOOPBACK
from bottega.service.mcp.parts import McpParts
from bottega.service.mcp.server import mcp_server
from bottega.service.mcp.sessions import IDLE_SECONDS, OwnedSessions
from bottega.service.metrics import ServerMetrics
from bottega.service.serving import Server, bound_socket, guarded_config, refuse_open_address
from bottega.service.tokens import NoTokens, TokenFile
from bottega.service.usage import SecondsUsed

SESSIONS = 2000
"""Of all tokens together."""
CONNECTIONS = 1000


def http_app(server: MCPServer, tokens: TokenFile | NoTokens) -> ASGIApp:
    """The gate knows tokens, sizes and, without tokens, which names are this machine's: the SDK's own check of names would refuse a proxy's."""
    app = server.streamable_http_app(
        max_request_body_size=OF_LOOPBACK.body_bytes,
        max_sessions=SESSIONS,
        session_idle_timeout=IDLE_SECONDS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return HttpGuard(OwnedSessions(app), tokens, ServerMetrics())  # type: ignore[arg-type,return-value]


async def serve_stdio(parts: McpParts) -> None:
    try:
        await mcp_server(parts).run_stdio_async()
    finally:
        await asyncio.to_thread(parts.judges.close)


async def serve_http(
    parts: McpParts,
    host: str,
    port: int,
    token_file: Path | None,
    say: Callable[[str], None],
    on_stop: Callable[[Callable[[], None]], None],
) -> None:
    tokens = TokenFile(token_file) if token_file is not None else NoTokens()
    refuse_open_address(host, isinstance(tokens, TokenFile))
    listening = bound_socket(host, port)
    usage = parts.judges.calls.usage = SecondsUsed(parts.folder / "usage.db") if token_file is not None else None
    server = Server(guarded_config(http_app(mcp_server(parts), tokens), CONNECTIONS))

    def stop() -> None:
        server.should_exit = True

    on_stop(stop)
    say(f"MCP over HTTP at http://{host}:{listening.getsockname()[1]}/mcp")
    try:
        await server.serve(sockets=[listening])
    finally:
        await asyncio.to_thread(parts.judges.close)
        if usage is not None:
            usage.close()
