"""Phases: a device on which a model of this process draws answers and the judge times kernels does one of the two at a time.

A timed round beside decoding tells nothing, and a model that steps aside for every round keeps both waiting. So callers of either kind enter
a section; a phase lasts until its last section is left, and then it is the other kind's turn. Whoever comes in time joins the phase under
way, unless the other kind has waited for long. Other processes know no phases: the device's lease stands between them and the model.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from bottega.backbone.client import Client
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.memory_ledger import claim

Kind = Literal["generate", "judge"]
OTHER: dict[Kind, Kind] = {"generate": "judge", "judge": "generate"}
PATIENCE = 30.0
"""Seconds after which a phase takes nobody in any more while the other kind waits."""


@dataclass(frozen=True)
class PhaseStatus:
    """For whoever watches."""

    phase: Kind | None
    """None while nobody uses the device."""
    inside: int
    """Sections that are entered."""
    waiting: int
    """Sections of the other kind that wait for their phase."""

    @property
    def text(self) -> str:
        """In a few words; nothing where nothing is under way."""
        if self.phase is None or not self.inside:
            return ""
        doing, waits = ("drawing answers", "kernels") if self.phase == "generate" else ("judging kernels", "answers")
        return f"{doing}: {self.inside} under way" + (f", {self.waiting} {waits} wait" if self.waiting else "")


class Phases:
    """Of one device, for any threads and event loops. Without a device nobody ever waits: the model and the judge have one each."""

    def __init__(self, device: str = "", patience: float = PATIENCE, lease: Lease | None = None, draws: bool = True) -> None:
        """`lease`: what the model holds of the device between processes. `draws`: whether it draws answers there, or learns alone."""
        self.device, self.patience, self.lease, self._draws = device_name(device), patience, lease, draws
        self.wake: Callable[[], None] = lambda: None
        """Tells the model that something has changed; called without the lock."""
        self.hear: Callable[[PhaseStatus], None] = lambda now: None
        """Told of every new phase, from any thread."""
        self._lock = threading.Lock()
        self._phase: Kind | None = None
        self._since = 0.0
        self._inside = 0
        self._model = self._model_waits = False
        """Whether the model itself is in a phase of generation, or waits for one. Between two requests it stays, until it is asked to go."""
        self._waiting: dict[Kind, deque[Future[None]]] = {"generate": deque(), "judge": deque()}

    def generating(self) -> PhaseSection:
        """Around everything that leads to a request to the model and needs no verdict meanwhile."""
        return PhaseSection(self if self.device and self._draws else None, "generate")

    def learning(self) -> PhaseSection:
        """Around an update of the weights beside which kernels may be judged."""
        return PhaseSection(self if self.device else None, "generate")

    def judging(self, device: str | None = None) -> PhaseSection:
        """Around what has kernels run on a device, if that is this one; the device is taken to be this one where it is not known."""
        elsewhere = not self.device or (device is not None and device_name(device) != self.device)
        return PhaseSection(None if elsewhere else self, "judge")

    @property
    def now(self) -> PhaseStatus:
        with self._lock:
            return self._now()

    # sections

    def enter(self, kind: Kind) -> Future[None]:
        """Has a result as soon as the section is entered; `leave` it then. Cancel it by `withdraw`."""
        place: Future[None] = Future()
        with self._lock:
            changed = self._open(kind)
            if changed is None:
                self._waiting[kind].append(place)
            else:
                self._inside += 1
                place.set_result(None)
        self._notify(bool(changed))
        return place

    def leave(self, kind: Kind) -> None:
        with self._lock:
            self._inside -= 1
            changed = self._turn()
        self._notify(changed)

    def withdraw(self, kind: Kind, place: Future[None]) -> None:
        """Whoever waited in vain, or was let in while it gave up."""
        with self._lock:
            waiting = place in self._waiting[kind]
            if waiting:
                self._waiting[kind].remove(place)
        if not waiting:
            self.leave(kind)

    # the model: one more user of generation, whom requests of those inside never find locked out

    def acquire(self) -> bool:
        with self._lock:
            joins = self._phase == "generate"
            changed = False if joins else self._open("generate")
            self._model = changed is not None
            self._model_waits = not self._model
            got = self._model
        self._notify(bool(changed), wake=False)
        return got

    def asked(self) -> bool:
        with self._lock:
            return self._model and bool(self._waiting["judge"]) and not self._inside

    def release(self) -> None:
        with self._lock:
            self._model = self._model_waits = False
            changed = self._turn()
        self._notify(changed, wake=False)

    def expected(self) -> int:
        with self._lock:
            return self._inside

    # under the lock

    def _open(self, kind: Kind) -> bool | None:
        """Let one of a kind in: whether a phase begins with it, or None where it has to wait."""
        if not self._inside and not self._model:
            self._phase, self._since = kind, time.monotonic()
            return True
        late = bool(self._waiting[OTHER[kind]]) or (kind == "judge" and self._model_waits)
        if self._phase != kind or (late and time.monotonic() - self._since > self.patience):
            return None
        return False

    def _turn(self) -> bool:
        """Begin the next phase if this one is over: the other kind's, if anyone of it waits."""
        if self._inside or self._model or self._phase is None:
            return False
        before, self._phase = self._phase, None
        for kind in (OTHER[before], before):
            waiting = self._waiting[kind]
            if waiting or (kind == "generate" and self._model_waits):
                self._phase, self._since = kind, time.monotonic()
                self._inside = len(waiting)
                for place in waiting:
                    place.set_result(None)
                waiting.clear()
                if kind == "generate" and self._model_waits:  # kept for it until it comes: it is woken now
                    self._model, self._model_waits = True, False
                return True
        return False

    def _now(self) -> PhaseStatus:
        other = len(self._waiting[OTHER[self._phase]]) if self._phase is not None else 0
        return PhaseStatus(self._phase, self._inside, other)

    def _notify(self, changed: bool, wake: bool = True) -> None:
        if wake:
            self.wake()
        if changed:
            self.hear(self.now)


@dataclass
class PhaseSection:
    """A stay in a phase, with `with` in a thread or `async with` on an event loop."""

    phases: Phases | None
    kind: Kind

    def __enter__(self) -> None:
        if self.phases is not None:
            place = self.phases.enter(self.kind)
            try:
                place.result()
            except BaseException:
                self.phases.withdraw(self.kind, place)
                raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.phases is not None:
            self.phases.leave(self.kind)

    async def __aenter__(self) -> None:
        if self.phases is not None:
            place = self.phases.enter(self.kind)
            if place.done():
                return
            try:
                loop = asyncio.get_running_loop()
                entered: asyncio.Future[None] = loop.create_future()
                place.add_done_callback(lambda _: _resolve_soon(loop, entered))
                await entered
            except BaseException:
                self.phases.withdraw(self.kind, place)
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def share_device(client: Client, host: DeviceHost = LOCAL) -> Phases:
    """The phases of the device on which a client's model draws, the same at every call; of no device where the model is elsewhere, or the judges
    of `host` are."""
    backbone: Any = getattr(client, "backbone", None)
    if not hasattr(backbone, "share") or not host.is_here(device_name(backbone.device)):
        return Phases()

    def lock() -> Phases:
        if backbone.device != "cpu" and hasattr(
            backbone, "count_memory"
        ):  # before the lease: a claim may wait for those who hold it
            backbone.count_memory(lambda held: claim(backbone.device, held, "a model"))
        return Phases(backbone.device, lease=Lease(open_lease(backbone.device)))

    return backbone.share(lock)  # type: ignore[no-any-return]


def device_name(device: str) -> str:
    return "cuda:0" if device == "cuda" else device


def _resolve_soon(loop: asyncio.AbstractEventLoop, entered: asyncio.Future[None]) -> None:
    def tell() -> None:
        if not entered.done():
            entered.set_result(None)

    loop.call_soon_threadsafe(tell)
