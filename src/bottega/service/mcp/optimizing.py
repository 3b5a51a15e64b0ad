"""`optimize_module` as a child process: the search loads a model and torch, and neither belongs into the process that speaks the protocol.

The child is the command `bottega optimize`, whose lines become progress notes. A client that cancels stops it as Ctrl-C would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bottega.backbone.choose import server_parts
from bottega.core.errors import BottegaError, UsageError
from bottega.core.foreign_text import one_line

FINDINGS = (0, 3)
"""Exit codes with a result: a faster kernel, or none."""
LONGEST_SOURCE = 64 << 10
LONGEST_LINE = 1 << 20
STOPPING_SECONDS = 20.0
Note = Callable[[int, str], Awaitable[None]]


def refuse_backbone(backbone: str, addresses: Sequence[str]) -> None:
    """Raises for a model that a stranger may not name: others than the embedded one, and servers that the operator does not list. Whoever could
    name an address would have this machine send requests there, also to places that only it can reach."""
    parts = server_parts(backbone.removeprefix("server:")) if backbone.startswith("server:") else None
    if backbone != "embedded" and (parts is None or parts[1].rstrip("/") not in {each.rstrip("/") for each in addresses}):
        listed = "".join(f", or server:MODEL@{address}" for address in addresses)
        raise UsageError(f"backbone: this server allows embedded{listed}; its operator lists addresses with backbones=URL")


async def optimize_module(
    command: Sequence[str], folder: Path, source: str, options: Sequence[str], note: Note
) -> dict[str, Any]:
    """`command`: how this Bottega is called. `note` gets the number and the text of each line. Nothing told names a folder of this machine but the
    result's own `folder`."""
    place = folder / secrets.token_hex(8)
    place.mkdir(parents=True)
    file, out = place / "module.py", place / "run"
    file.write_text(source, encoding="utf-8")
    child = await asyncio.create_subprocess_exec(
        *command, "optimize", str(file), "--out", str(out), "json=true", *options,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True, limit=LONGEST_LINE,
    )  # fmt: skip
    assert child.stdout is not None and child.stderr is not None
    try:
        said, _ = await asyncio.gather(child.stdout.read(), _noted(child.stderr, f"{place}/", note))
        code = await child.wait()
    except BaseException:
        await asyncio.shield(_stopped(child))
        raise
    try:
        told = json.loads(said)
    except ValueError:
        told = {}
    if code not in FINDINGS or not isinstance(told, dict):
        reason = told.get("error") if isinstance(told, dict) else ""
        if not out.exists():
            shutil.rmtree(place, ignore_errors=True)
        raise BottegaError(one_line(str(reason or f"the search ended with exit code {code}").replace(f"{place}/", ""), 2000))
    kernel = out / "optimized.py"
    if kernel.is_file() and kernel.stat().st_size <= LONGEST_SOURCE:
        told["optimized_source"] = kernel.read_text(encoding="utf-8")
    return told


async def _noted(lines: asyncio.StreamReader, place: str, note: Note) -> None:
    number = 0
    async for line in lines:
        if text := one_line(line.decode(errors="replace").replace(place, ""), 300):
            number += 1
            await note(number, text)


async def _stopped(child: asyncio.subprocess.Process) -> None:
    """Twice the signal of Ctrl-C ends everything at once; what does not hear is killed."""
    for sign in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(sign)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), STOPPING_SECONDS / 2)
            return
