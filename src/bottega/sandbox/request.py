"""The request to the fork server for one sandbox, with everything that its supervisor and its child need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bottega.sandbox.limits import Limits

Mode = Literal["root", "user", "bare"]
"""How the parts are obtained: with the privileges of root, through a user name space, or without any name space."""
MODES: tuple[Mode, ...] = ("root", "user", "bare")


@dataclass(frozen=True)
class SpawnRequest:
    entry: str
    """`package.module:function`."""
    arguments: bytes
    """Pickled by the caller, unpickled only by the child, which may lack what the caller can import."""
    mode: Mode
    device: str
    limits: Limits
    environment: dict[str, str]
    """The child's whole environment, but for what depends on its scratch folder."""
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    output: bool
    require_sandbox: bool
    trusted: bool = False
    """Whether it may hand descriptors to others, to other processes of its own."""
    hidden: bool = False
    """Whether its memory and descriptors are closed to its own forks, which run what is not trusted."""
    freezer: bool = True
    """Whether a freezer is looked for, to stop it with."""
    reserved_cores: int = 0
    """Cores that it does not use unless it is granted them; 0 for none."""
    refused: str = ""
    """Mode `bare`: why the better modes were refused."""
