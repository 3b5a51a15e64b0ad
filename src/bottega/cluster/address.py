"""A Ray cluster by its address: `auto`, `local`, `HOST:6379` from one of its machines, or `ray://HOST:10001` from outside.

`local` starts one of this machine alone, which ends with the command. `auto` does so where this machine is in none (`ray start`, RAY_ADDRESS).
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from bottega.core.errors import UsageError
from bottega.core.foreign_text import one_line

NAMESPACE, LOCAL, NAMED = "bottega", "local", "RAY_ADDRESS"
OBJECT_STORE_BYTES = 128 << 20
"""Of a cluster that is started here: only texts travel."""
TOKEN_HINT = "One that asks for a token is joined with RAY_AUTH_MODE=token and its token on this machine"
CORES_OF_A_JUDGE = 4
"""On machines without a GPU. A kernel that is timed has the machine's lease, and all its cores, whichever judge times it."""


@dataclass(frozen=True)
class ClusterAddress:
    address: str = "auto"
    make: str = ""
    """A part of the device's own name, such as H100, where the cluster has several kinds."""
    cores: int = CORES_OF_A_JUDGE
    """Of each judge on a CPU."""

    @classmethod
    def read(cls, words: str) -> ClusterAddress:
        address, _, rest = words.partition("?")
        options = dict(parse_qsl(rest, keep_blank_values=True))
        if unknown := sorted(options.keys() - {"make", "cores"}):
            raise UsageError(f"--cluster {words}: knows make=NAME and cores=NUMBER, not {unknown[0]}")
        cores = options.get("cores", str(CORES_OF_A_JUDGE))
        if not cores.isdecimal() or int(cores) < 1:
            raise UsageError(f"--cluster {words}: cores={cores} is no number of cores")
        if not address:
            raise UsageError("--cluster needs auto, local, HOST:6379 or ray://HOST:10001")
        return cls(address, options.get("make", ""), int(cores))


def join(address: str) -> bool:
    """Whether a connection was made that `leave` is to end; a process that is connected already stays so."""
    ray = imported()
    if ray.is_initialized():
        return False
    named = address not in ("auto", LOCAL) or (address == "auto" and bool(os.environ.get(NAMED)))
    if named:
        _show_token()
    try:
        with _signals_kept(), _processes_apart():
            _init(ray, address, named)
    except ConnectionError as error:
        if named:
            raise UsageError(
                f"--cluster {address}{_of_variable(address)}: no Ray cluster answers there: {one_line(str(error), 300)}. {TOKEN_HINT}"
            ) from None
        with _signals_kept(), _processes_apart():  # the one of `ray start` has died
            _init(ray, LOCAL, named)
    except (RuntimeError, ValueError, ImportError) as error:  # another version of Ray or Python there, or no such address
        raise UsageError(f"--cluster {address}{_of_variable(address)}: cannot be joined: {one_line(str(error), 300)}") from None
    _keep_from_stdout()
    _begin_no_other()
    return True


def _init(ray: Any, address: str, named: bool) -> None:
    """Ray's own `auto` takes any cluster that runs here, also one that another command has started for itself: its judges are taken, and it ends
    with that command. No address means that of `ray start`, or a new one."""
    given: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    alone = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    place = None if address == "auto" else address
    if not named:
        try:
            ray.init(address=place, **given, **alone)
            return
        except ValueError:  # there is one, which has its memory already
            if address == LOCAL:
                raise
    ray.init(address=place, **given)


def _show_token() -> None:
    """`ray start --head` asks for the token of ~/.ray where there is one, as any local cluster leaves it there, and `init` shows it only where it is
    told to. Who asks for none takes no notice of it."""
    if setup := _inside("authentication.authentication_token_setup", "maybe_enable_token_auth_if_token_available"):
        kept = setup.logger.level
        setup.logger.setLevel(logging.ERROR)
        try:
            setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        finally:
            setup.logger.setLevel(kept)


def _of_variable(address: str) -> str:
    return f" ({NAMED}={os.environ[NAMED]})" if address == "auto" and os.environ.get(NAMED) else ""


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray would end the process at SIGTERM, where a command may end its step first. Who has no answer to it ends in order, and Ray with it: of a
    process that is just gone, some of Ray's own see it only after a minute."""
    here = threading.current_thread() is threading.main_thread()
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if here}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:
                signal.signal(number, _end if handler is signal.SIG_DFL else handler)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _processes_apart() -> Iterator[None]:
    """A Ray that is started here is in a session of its own: SIGTERM to this command's process group (`timeout`, `scancel`) is for the command,
    which ends its step and then Ray. The kernel ends Ray's processes with this one. Ray has no setting for it."""
    services = _inside("services", "ConsolePopen")
    plain = services and services.ConsolePopen
    if services:
        services.ConsolePopen = functools.partial(plain, start_new_session=True)
    try:
        yield
    finally:
        if services:
            services.ConsolePopen = plain


def _keep_from_stdout() -> None:
    """Ray tells of lost workers on standard output, where `--json` has its object. Whoever loses a judge or a rank says so himself."""
    if worker := _inside("worker", "print_to_stdstream"):
        worker.print_to_stdstream = lambda *given, **options: None


def _begin_no_other() -> None:
    """A call that finds its connection lost would begin a Ray of this machine's own, and kernels would be judged here."""
    if hook := _inside("auto_init_hook", "enable_auto_connect"):
        hook.enable_auto_connect = False


def _inside(module: str, name: str) -> Any:
    """A module of Ray's own, where this version has that name in it; else none, and Ray stays as it is."""
    with suppress(ImportError):
        found = importlib.import_module(f"ray._private.{module}")
        return found if hasattr(found, name) else None
    return None


def leave() -> None:
    imported().shutdown()


def imported() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("--cluster needs Ray: pip install 'bottega[cluster]'") from None
    return ray
