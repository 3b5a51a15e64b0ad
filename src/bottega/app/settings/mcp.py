"""Settings of `bottega mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from bottega.core.setting_kinds import Positive, Words
from bottega.core.settings import CommandSettings


class McpSettings(CommandSettings):
    command: ClassVar[str] = "mcp"
    flags: ClassVar[tuple[str, ...]] = ("device", "server", "http", "host", "port", "token_file", "library", "folder")

    device: Words = ("cpu",)
    """Devices to judge on, the first by default: cpu, cuda, or several by comma."""
    server: str = ""
    """Judge at a `bottega serve` of this address instead; its token is read from BOTTEGA_TOKEN."""
    http: bool = False
    """Speak streamable HTTP instead of standard input and output."""
    host: str = "127.0.0.1"
    """With --http: the address to listen on. Others than this machine's own are refused without a token file."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8767
    """With --http: the port; 0 takes a free one and prints it."""
    token_file: Path | None = None
    """With --http: who may use it, as with `bottega serve`."""
    library: Path | None = None
    """The skill library; yours if left out."""
    folder: Path = Path("bottega-mcp")
    """Where searches keep their runs."""
    at_once: Positive = 8
    """Calls that are judged or search at a time; further ones are told to come again. Of a token, its `queue_share` of them."""
    backbones: Words = ()
    """With --http: addresses of model servers that searches may use beside the embedded model, such as http://localhost:8000/v1."""
