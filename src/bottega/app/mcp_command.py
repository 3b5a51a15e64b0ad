"""`bottega mcp`: settings in, a running MCP server out. The work is done in `bottega.service.mcp`."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from functools import cache, partial

import typer

from bottega.app.configured import Given, configured
from bottega.app.interrupts import on_first_signal
from bottega.app.settings.mcp import McpSettings
from bottega.app.terminal import say
from bottega.core.errors import UsageError

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@configured(app, McpSettings, "")
def mcp_command(given: Given[McpSettings]) -> None:
    """Judge, profile and optimize as tools of a coding agent, over the Model Context Protocol.

    Agents start it themselves and speak over standard input and output; docs/reference/mcp.md has the setup of each. To try it by hand:

        claude mcp add bottega -- bottega mcp --device cuda
        bottega mcp --http --port 8767

    Tools: judge_kernel, profile_kernel, explain_verdict, check_task, search_skills, get_skill, optimize_module, list_devices. A laptop judges on
    a GPU elsewhere with `--server URL`. What an agent sends runs in the judge's sandbox; searches are kept in `--folder`.

    Over HTTP others are let in with tokens only, which `bottega serve --add-token` makes. Standard output carries the protocol and nothing else.
    Exit code 0 when it was stopped, 2 for wrong usage.
    """
    settings = given.settings
    if given.words:
        raise UsageError(f"{given.words[0]!r}: `bottega mcp` takes settings only, such as device=cuda")
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the package mcp is missing: pip install 'bottega[service]'")
    if settings.token_file is not None and not settings.http:
        raise UsageError("--token-file is for --http: over standard input there is one user, who started it")
    from bottega.service.mcp.calls import Calls
    from bottega.service.mcp.judges import JudgePool
    from bottega.service.mcp.parts import McpParts
    from bottega.service.mcp.serving import serve_http, serve_stdio
    from bottega.skills.default_library import open_library

    parts = McpParts(
        judges=JudgePool(settings.device, settings.server, Calls(settings.at_once)),
        library=cache(partial(open_library, settings.library)),
        command=(sys.executable, "-m", "bottega.app.cli"),
        folder=settings.folder.absolute(),
        files=not settings.http,
        backbones=settings.backbones,
    )
    if settings.http:
        tell = partial(say, err=True)
        asyncio.run(serve_http(parts, settings.host, settings.port, settings.token_file, tell, on_first_signal))
    else:
        asyncio.run(serve_stdio(parts))
