"""Which request goes to which judge: the queue of a cluster, without Ray and without threads.

A task that is open at a judge is used again there. A request whose judge was lost under it is tried once more, at another machine where there
is one, and alone: if that judge is lost too, it was this candidate and no neighbour of it.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

OPEN_TASKS = 4
"""Tasks that a judge keeps open beside those under way."""
TRIES = 2
"""After so many judges that were lost under a request, it is to blame."""


@dataclass(frozen=True, eq=False)
class JudgeName:
    """One judge of a command, which every machine opens for itself when it is first asked."""

    id: str
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class ClusterRequest:
    key: str
    """Of its content, its judge and how often that asked: whoever gets it twice does it once."""
    task: str
    method: str
    judge: JudgeName
    given: tuple[Any, ...]
    options: dict[str, Any]
    blame: Callable[[str], Any]
    """What it comes to when it took down its judges, given a sentence that says so; or raises."""
    done: Future[Any] = field(default_factory=Future)
    begun: bool = False
    """Whether the judge that has it was there when it came: one that had died before is none of its doing."""
    lost_at: list[str] = field(default_factory=list)
    """Machines whose judge was lost while it ran there."""


@dataclass(eq=False)
class PlacedJudge:
    """A judge of the cluster, as the driver sees it."""

    node: str
    """The machine's id."""
    name: str = ""
    lanes: int = 0
    """Verdicts at a time; 0 until it is ready."""
    running: set[ClusterRequest] = field(default_factory=set)
    tasks: deque[str] = field(default_factory=lambda: deque(maxlen=OPEN_TASKS))
    alone_for: ClusterRequest | None = None
    """The request that it is kept free for, or does alone."""


class RequestQueue:
    def __init__(self) -> None:
        self._waiting: dict[str, deque[ClusterRequest]] = {}
        """By task, in the order in which they came."""
        self._suspects: deque[ClusterRequest] = deque()
        """Requests whose judge was lost."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._suspects)

    def add(self, request: ClusterRequest) -> None:
        """One that was lost with a judge before is a suspect still, also where it comes back for another reason: it is done alone."""
        if request.lost_at:
            self._suspects.append(request)
        else:
            self._waiting.setdefault(request.task, deque()).append(request)

    def lost(self, request: ClusterRequest, judge: PlacedJudge) -> bool:
        """Its judge is gone. Whether it is tried once more; if not, it is to blame."""
        request.lost_at.append(judge.node)
        if len(request.lost_at) >= TRIES:
            return False
        self.add(request)
        return True

    def remove(self, request: ClusterRequest) -> bool:
        """Whether it waited."""
        waiting = self._waiting.get(request.task, deque())
        for queue in (waiting, self._suspects):
            if request in queue:
                queue.remove(request)
                if not waiting:
                    self._waiting.pop(request.task, None)
                return True
        return False

    def drain(self) -> list[ClusterRequest]:
        """All that waits, which is taken out."""
        found = [request for queue in (*self._waiting.values(), self._suspects) for request in queue]
        self._waiting.clear()
        self._suspects.clear()
        return found

    def assign(self, judges: Iterable[PlacedJudge]) -> list[tuple[PlacedJudge, ClusterRequest]]:
        """What can begin now, with its judge, which has it in `running` from here on."""
        ready = [judge for judge in judges if judge.lanes]
        begun = self._assign_suspects(ready)
        for judge in ready:
            while judge.alone_for is None and len(judge.running) < judge.lanes and self._waiting:
                begun.append((judge, self._begin(judge, self._take(judge, ready))))
        return begun

    def _assign_suspects(self, ready: list[PlacedJudge]) -> list[tuple[PlacedJudge, ClusterRequest]]:
        begun = []
        for judge in ready:
            if judge.alone_for not in self._suspects and judge.alone_for not in judge.running:
                judge.alone_for = None  # it was cancelled
        kept = {judge.alone_for for judge in ready}
        for request in [request for request in self._suspects if request not in kept]:
            free = [judge for judge in ready if judge.alone_for is None]
            elsewhere = [judge for judge in ready if judge.node not in request.lost_at]
            able = [judge for judge in free if not elsewhere or judge in elsewhere]
            if able:
                min(able, key=lambda judge: len(judge.running)).alone_for = request
        for judge in ready:
            request_alone = judge.alone_for
            if request_alone in self._suspects and not judge.running:
                assert request_alone is not None
                self._suspects.remove(request_alone)
                begun.append((judge, self._begin(judge, request_alone)))
        return begun

    def _take(self, judge: PlacedJudge, ready: list[PlacedJudge]) -> ClusterRequest:
        held = {task for other in ready for task in other.tasks}
        own = next((task for task in self._waiting if task in judge.tasks), None)
        free = next((task for task in self._waiting if task not in held), None)
        task = own or free or max(self._waiting, key=lambda task: len(self._waiting[task]))
        request = self._waiting[task].popleft()
        if not self._waiting[task]:
            del self._waiting[task]
        return request

    def _begin(self, judge: PlacedJudge, request: ClusterRequest) -> ClusterRequest:
        judge.running.add(request)
        request.begun = False
        if request.task in judge.tasks:
            judge.tasks.remove(request.task)
        judge.tasks.append(request.task)
        return request


def ended(judge: PlacedJudge, request: ClusterRequest) -> None:
    """It runs there no more."""
    judge.running.discard(request)
    if judge.alone_for is request:
        judge.alone_for = None


def content_key(*parts: Any) -> str:
    """The same for the same content: task text, candidate text, settings, the device's make, who asked, and how often before."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode(errors="surrogatepass")).hexdigest()
