"""`bottega dashboard`: the runs below some folders in a browser, for whoever sits at this machine; or one run as a file for everyone else."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.terminal import say
from bottega.core.errors import UsageError
from bottega.core.files import write

HOST, PORT = "127.0.0.1", 8766

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("dashboard")
def dashboard_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Folders to look through for runs; here if left out.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens on this machine; 0 takes any free one.")] = PORT,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the one run DIR into this HTML file, and serve nothing.")
    ] = None,
) -> None:
    """Watch runs in a browser: searches, benchmarks, training, data, lineages and skill libraries, while they grow.

        bottega dashboard runs

    Every view has an address of its own. Keys: j and k move, Enter opens, u goes up, / filters, ? tells all of them. Two runs can be compared.

    To share a run, write it into one HTML file that needs nothing else and runs nothing:

        bottega dashboard runs/my-search --export my-search.html

    It only reads: a run that is being written is not disturbed, and one that is broken or half written is shown as far as it goes. It listens on
    this machine alone; to look from elsewhere, forward the port (`ssh -L 8766:localhost:8766 HOST`), or use `bottega serve`, which asks for a
    token. Needs the extra `service`: `pip install 'bottega[service]'`.
    """
    places = folders or [Path()]
    for place in places:
        if not place.is_dir():
            raise UsageError(f"{place}: no such folder")
    if export is not None:
        if len(places) != 1:
            raise UsageError("--export writes one run: give its folder alone")
        from bottega.service.dashboard.export import exported

        write(export, exported(places[0]))
        say(f"wrote {export}")
        return
    _serve(places, port)


def _serve(folders: Sequence[Path], port: int) -> None:
    try:
        import uvicorn
        from starlette.middleware.trustedhost import TrustedHostMiddleware

        from bottega.service.dashboard.app import dashboard_app
    except ImportError as error:
        raise UsageError(f"the dashboard needs the package {error.name}: pip install 'bottega[service]'") from None
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        raise UsageError(
            f"port {port} of this machine cannot be had ({os.strerror(error.errno or 0)}); give another --port"
        ) from None
    # Another site's page in the same browser could name a host that leads here: only our own names are answered.
    served = TrustedHostMiddleware(dashboard_app(folders), allowed_hosts=["localhost", HOST])
    say(
        f"http://{HOST}:{listening.getsockname()[1]}/ shows the runs in {', '.join(str(folder) for folder in folders)}; Ctrl-C ends it"
    )
    uvicorn.Server(uvicorn.Config(served, log_level="warning", access_log=False, server_header=False)).run(sockets=[listening])
