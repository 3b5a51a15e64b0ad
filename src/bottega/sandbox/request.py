"""What the judge asks the fork server for: one cell, with everything that its warden and its inmate need to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bottega.sandbox.limits import Limits

Mode = Literal["root", "user", "bare"]
"""How the parts are got: with the privileges of root, through a user name space, or without any name space."""
MODES: tuple[Mode, ...] = ("root", "user", "bare")


@dataclass(frozen=True)
class Order:
    entry: str
    """`package.module:function`."""
    arguments: bytes
    """Pickled by the judge, unpickled only by the inmate, which may lack what the judge can import."""
    mode: Mode
    device: str
    limits: Limits
    environment: dict[str, str]
    """The inmate's whole environment, but for what depends on its scratch folder."""
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    output: bool
    require_sandbox: bool
    trusted: bool = False
    """Whether it may hand descriptors to others, as the referee does."""
    freezer: bool = True
    """Whether a freezer is looked for, to stop it with."""
    refused: str = ""
    """Mode `bare`: why the better modes were refused."""
