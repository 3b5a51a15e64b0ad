"""Settings of `bottega serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from bottega.core.setting_kinds import Cluster, Paths, Positive, Seconds, Words, Workers
from bottega.core.settings import CommandSettings
from bottega.service.limits import TokenLimits


class ServeSettings(CommandSettings):
    command: ClassVar[str] = "serve"
    flags: ClassVar[tuple[str, ...]] = ("host", "port", "device", "cluster", "token_file", "add_token", "folder", "runs")

    host: str = "127.0.0.1"
    """The address to listen on. Others than this machine's own are refused without a token file."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """The port; 0 takes a free one and prints it."""
    device: Words = ("cpu",)
    """Devices to judge on: cpu, cuda, or several by comma such as cuda:0,cuda:1."""
    cluster: Cluster = None
    token_file: Path | None = None
    """Who may use it: hashes and limits of tokens, in TOML. Read again when it changes."""
    add_token: str | None = None
    """Do not serve: make a token of this name with the limits given, add it to the token file, and print it once."""
    folder: Path | None = None
    """Where requests and results are kept; ~/.local/share/bottega/serve if left out."""
    runs: Paths = ()
    """Folders of runs to show in a dashboard under /; no dashboard if left out."""

    limits: TokenLimits = TokenLimits()
    """Of the token that --add-token makes; later they are edited in the token file."""
    workers: Workers = "auto"
    """Kernels built and tried side by side on each device; auto is what the cores carry."""
    require_sandbox: bool = False
    """Refuse to judge where a part of the sandbox is missing."""
    memory_gb: Annotated[float, Field(ge=0)] = 0.0
    """Memory of a candidate's processes; 0 takes three quarters of the machine's."""
    tasks: Words = ()
    """Tasks that clients may name beside the built-in ones: files, folders, data sets."""
    library: Path | None = None
    """The skill library that clients may search; the shipped set if left out."""
    queue: Positive = 2000
    """Requests that may wait; further ones are answered with 429."""
    connections: Positive = 1000
    """Connections at a time; further ones are answered with 503."""
    grace: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that running verdicts have to end when the server is stopped; then they wait for its next start."""
    keep_days: Seconds = 30.0
    """Results are deleted after so many days."""
    keep_mib: Positive = 2048
    """Above this size the oldest results of whoever has most are deleted."""
