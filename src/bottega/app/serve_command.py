"""`bottega serve`: settings in, a running server out. The work is done in `bottega.service`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from bottega.app.configured import Given, configured
from bottega.app.device_host import device_host
from bottega.app.interrupts import on_first_signal
from bottega.app.settings.serve import ServeSettings
from bottega.app.terminal import say
from bottega.core.errors import UsageError
from bottega.service.tokens import add_token

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@configured(app, ServeSettings, "")
def serve_command(given: Given[ServeSettings]) -> None:
    """Serve the judge over HTTP: candidates from others in, verdicts out, the same as `bottega judge --json` prints.

    On this machine only, without tokens:

        bottega serve
        bottega judge builtin:star_relu examples/star_relu.py --server http://127.0.0.1:8765

    For others, on a GPU, behind a proxy that adds TLS. The first command prints a token, once:

        bottega serve --token-file tokens.toml --add-token alice limits.requests_per_minute=120 limits.seconds=300
        bottega serve --token-file tokens.toml --device cuda --host 0.0.0.0

    Tokens take turns. A token may name built-in tasks and those of `tasks=DIR`; to send tasks of its own it needs `own_tasks`, because a task
    is trusted with its verdicts. What was accepted survives a crash of the server: it is judged after the next start.

    Ctrl-C or SIGTERM stops it: running verdicts have `grace` seconds to end, and the queue is kept. A second signal ends it at once.
    Routes, fields and an example: http://127.0.0.1:8765/docs. Exit code 0 when it was stopped, 2 for wrong usage.
    """
    settings = given.settings
    if given.words:
        raise UsageError(f"{given.words[0]!r}: `bottega serve` takes settings only, such as port=9000")
    if settings.add_token is not None:
        if settings.token_file is None:
            raise UsageError("--add-token needs --token-file FILE, to which it is added")
        token = add_token(settings.token_file, settings.add_token, settings.limits)
        say(f"{settings.add_token} is in {settings.token_file}. Its token, which is shown only now:", err=True)
        sys.stdout.write(token + "\n")
        return
    if "limits" in given.keys:
        raise UsageError("limits: has an effect with --add-token only; those of a token are edited in the token file")
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"{package} is not installed: pip install 'bottega[service]'")
    from bottega.service.dispatcher import Keeping
    from bottega.service.serving import ServerOptions, run_server

    options = ServerOptions(
        folder=settings.folder or _data_folder(),
        host=settings.host,
        port=settings.port,
        devices=settings.device,
        token_file=settings.token_file,
        workers=settings.workers,
        require_sandbox=settings.require_sandbox,
        memory_gb=settings.memory_gb,
        keeping=Keeping(settings.queue, settings.keep_days, settings.keep_mib, settings.grace),
        connections=settings.connections,
        tasks=settings.tasks,
        library=settings.library,
        dashboard=_dashboard(settings.runs),
    )
    with device_host(cluster=settings.cluster) as host:
        devices = host.chosen(",".join(settings.device)) if settings.cluster is not None else settings.device
        served = replace(options, devices=devices, device_host=host)
        run_server(served, lambda text: say(text, err=True), _stop_on_signals)
    with contextlib.suppress(OSError):
        say("stopped", err=True)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    def handle() -> None:
        stop()  # first: where nobody reads standard error any more, saying so fails
        with contextlib.suppress(OSError):
            say("stopping; running verdicts may end, and what waits is kept. Once more to stop at once", err=True)

    on_first_signal(handle)


def _dashboard(folders: tuple[Path, ...]) -> Any:
    if not folders:
        return None
    try:
        from bottega.service.dashboard.app import dashboard_app
    except ImportError as error:
        raise UsageError(f"runs: the dashboard cannot be loaded: {error}") from None
    return dashboard_app(folders)


def _data_folder() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "bottega" / "serve"
