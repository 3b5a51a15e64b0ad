"""The judges of a cluster: one for each GPU, or for some cores, on every machine of it, and one queue in front of them.

Machines come and go: judges are started on those that join, and what a lost one had under way is done elsewhere. Devices of another make than
the first are left out, since their times do not belong in one comparison. All state belongs to an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from bottega.bench.caveats import SAME_MACHINE
from bottega.cluster.address import ClusterAddress, imported
from bottega.cluster.judge_actor import ActorAnswer, JudgeActor, code_digest
from bottega.cluster.request_queue import ClusterRequest, JudgeName, PlacedJudge, RequestQueue, ended
from bottega.core.errors import JudgeError, NoJudgeError, UsageError
from bottega.core.foreign_text import one_line
from bottega.judge.cancellation import Cancelled
from bottega.judge.device_host import maker_of
from bottega.judge.machine import Workers

WATCH_SECONDS = 1.0
"""How often it is seen which machines there are."""
OPENING_SECONDS, MORE_SECONDS = 120.0, 20.0
"""How long the first judge may take to be ready, and then the others, before it is decided which make is judged on."""
TOLD_SECONDS = 10.0
"""After so long without a judge it is said what is waited for."""
PATIENCE_SECONDS = 120.0
"""How long requests wait while the cluster has no judge at all."""
HEAD_SECONDS = 40.0
"""How long the cluster's head may be silent before requests are given up. After 60 s Ray ends the process that asks, without a word of ours."""
HELD = "others may hold its devices, see `ray status`"
PING_SECONDS, SILENT_SECONDS = 60.0, 300.0
"""How often a judge at work is asked whether it is there, and after how long without an answer it is given up. Ray watches machines, and sees
processes that ended; one that is stuck would be waited for without end."""
FAILED_SECONDS = 10.0
"""Between two tries to start a judge that did not come up."""
THREADS = 128
"""Of an actor: verdicts under way, and room for those who cancel them."""


@dataclass(eq=False)
class RayJudge(PlacedJudge):
    actor: Any = None
    told: dict[str, Any] = field(default_factory=dict)
    """What it said of itself, once it was ready."""
    pinged: float = 0.0
    """When it was last asked whether it is there."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """What must be the same for verdicts to stand in one comparison; of a CPU, also how many cores there are."""
        found = self.told["fingerprint"]
        parts = [found.get(name) for name in ("bottega", *SAME_MACHINE) if name != "device"]
        return (*parts, "" if found.get("gpu") else found.get("cores"), self.told["code"])


Place = tuple[str, int]
"""The machine, and the number of the judge there."""


class ClusterPool:
    def __init__(
        self, cluster: ClusterAddress, kind: str, log: Callable[[str], None], actor: type[JudgeActor] = JudgeActor
    ) -> None:
        """Waits until judges of one make are there."""
        self.cluster, self.kind, self._log, self._actor = cluster, kind, log, actor
        self._ray = imported()
        self._workers: Workers = "auto"
        self._judges: dict[Place, RayJudge] = {}
        self._left_out: set[Place] = set()
        self._failed: dict[Place, float] = {}
        self._failures, self._last_failure = 0, ""
        self._queue = RequestQueue()
        self._identity: tuple[Any, ...] | None = None
        self._first: RayJudge | None = None
        self._last_seen = time.monotonic()
        self._away: NoJudgeError | None = None
        """Why nothing can be asked now: the head does not answer."""
        self._closed = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True).start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        except BaseException:
            self.close()
            raise

    # for any thread

    @property
    def first(self) -> dict[str, Any]:
        """What the first judge told of its device; all others are of the same make."""
        assert self._first is not None
        return self._first.told

    @property
    def judges(self) -> list[dict[str, Any]]:
        """What each judge told that is ready now."""
        return [judge.told for judge in list(self._judges.values()) if judge.lanes]

    def submit(self, request: ClusterRequest) -> None:
        self._loop.call_soon_threadsafe(self._submitted, request)

    def cancel(self, request: ClusterRequest) -> None:
        self._loop.call_soon_threadsafe(self._cancelled, request)

    def use_workers(self, workers: Workers) -> None:
        """Verdicts at a time of each judge, from here on."""
        if workers != self._workers:
            asyncio.run_coroutine_threadsafe(self._use_workers(workers), self._loop).result()

    def close_judge(self, judge: JudgeName) -> None:
        """End its processes everywhere; what waits for it fails."""
        self._loop.call_soon_threadsafe(self._judge_closed, judge)

    def close(self) -> None:
        """End every judge. Safe to call twice."""
        if not self._closed:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)

    # in the loop

    async def _open(self) -> None:
        begun = time.monotonic()
        self._spawn(self._watch())
        waited_for_more, told = 0.0, False
        while True:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), WATCH_SECONDS)
            if self._away is not None:
                raise self._away
            ready = [judge for judge in self._judges.values() if judge.told]
            now = time.monotonic()
            waited_for_more = waited_for_more or (now if ready else 0.0)
            if ready and (len(ready) == len(self._judges) or now - waited_for_more > MORE_SECONDS):
                break
            if not ready and not told and now - begun > TOLD_SECONDS:
                self._log(f"cluster: no judge on {self.kind} yet, waiting up to {OPENING_SECONDS:g} s; {HELD}")
                told = True
            hopeless = not self._judges and self._failures >= 2 * max(1, len(self._failed))
            if hopeless or now - begun > OPENING_SECONDS:
                why = self._last_failure or HELD
                raise JudgeError(f"no judge of the cluster is ready on {self.kind} after {now - begun:.0f} s: {why}")
        self._choose(ready)

    def _choose(self, ready: list[RayJudge]) -> None:
        """The make that is judged on, from here on."""
        makes = Counter(maker_of(judge.told["fingerprint"]) for judge in ready)
        fits = [judge for judge in ready if self.cluster.make.lower() in maker_of(judge.told["fingerprint"]).lower()]
        if len({judge.identity for judge in fits}) != 1:
            told = ", ".join(f"{count} × {make}" for make, count in makes.items())
            raise UsageError(
                f"--cluster: its devices are {told}"
                + (
                    "; name one kind: ADDRESS?make=NAME"
                    if len(makes) > 1
                    else ", with different software or drivers: make them alike"
                )
            )
        if fits[0].told["code"] != code_digest():
            raise UsageError(
                "--cluster: its machines have other code of Bottega than this one, under the same version: make them alike"
            )
        self._first, self._identity = fits[0], fits[0].identity
        for judge in ready:
            self._admit(judge)

    async def _watch(self) -> None:
        heard = time.monotonic()
        while True:
            machines = asyncio.wrap_future(_apart(self._ray.nodes))
            while not (await asyncio.wait({machines}, timeout=WATCH_SECONDS))[0]:
                self._look_after(heard)
            if machines.exception() is None:
                heard, self._away = time.monotonic(), None
                self._place(machines.result())
            self._look_after(heard)
            await asyncio.sleep(WATCH_SECONDS)

    def _look_after(self, heard: float) -> None:
        """Ask judges at work whether they are there, and give up what nobody will do. `heard`: when the head last answered."""
        now = time.monotonic()
        if self._away is None and now - heard > HEAD_SECONDS:
            self._give_up(f"the head of the cluster has not answered for {HEAD_SECONDS:g} s; start it again")
        for place, judge in self._judges.items():
            if judge.running and now - judge.pinged > PING_SECONDS:
                judge.pinged = now
                self._spawn(self._ping(place, judge))
        if any(judge.lanes for judge in self._judges.values()) or not len(self._queue):
            self._last_seen = now
        waited = now - self._last_seen > PATIENCE_SECONDS
        if self._away is not None or waited:
            for request in self._queue.drain():
                self._settle(request, self._away or NoJudgeError(f"the cluster has had no judge for {PATIENCE_SECONDS:g} s"))

    def _give_up(self, why: str) -> None:
        """All that is under way and all that comes, until the head answers again."""
        self._away = NoJudgeError(why)
        self._log(f"cluster: {why}")
        self._changed.set()
        for judge in self._judges.values():
            running, judge.running = judge.running, set()
            for request in running:
                self._settle(request, self._away)

    async def _ping(self, place: Place, judge: RayJudge) -> None:
        with self._losing_silent(place, judge):
            await asyncio.wait_for(self._answer(judge.actor.ping.remote()), SILENT_SECONDS)

    @contextlib.contextmanager
    def _losing_silent(self, place: Place, judge: RayJudge) -> Iterator[None]:
        """A judge that is there and does not answer is given up; of one that is gone, whoever watches it sees that."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            try:
                yield
            except TimeoutError:
                if self._judges.get(place) is judge:
                    self._lose(place, judge, f"it does not answer for {SILENT_SECONDS:g} s")

    def _place(self, nodes: list[dict[str, Any]]) -> None:
        """Start judges where there is room for one and none is; forget those whose machine is gone."""
        wanted: dict[Place, dict[str, Any]] = {}
        for node in nodes:
            if node["Alive"]:
                wanted |= {(node["NodeID"], number): node for number in range(self._room(node["Resources"]))}
        for place, judge in list(self._judges.items()):
            if place not in wanted:
                self._lose(place, judge, "its machine has left the cluster")
        self._left_out &= wanted.keys()
        for place, node in wanted.items():
            if place not in self._judges and place not in self._left_out and time.monotonic() >= self._failed.get(place, 0.0):
                self._judges[place] = judge = self._start(node)
                self._spawn(self._greet(place, judge))

    def _room(self, resources: dict[str, float]) -> int:
        if self.kind != "cpu":
            return int(resources.get("GPU", 0))
        return int(resources.get("CPU", 0)) // self._cores(resources)

    def _cores(self, resources: dict[str, float]) -> int:
        return max(1, min(self.cluster.cores, int(resources.get("CPU", 0))))

    def _start(self, node: dict[str, Any]) -> RayJudge:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        resources = node["Resources"]
        cores = self._cores(resources)
        needs = {"num_cpus": cores} if self.kind == "cpu" else {"num_cpus": 0, "num_gpus": 1}
        actor = self._ray.remote(self._actor).options(
            **needs,
            max_concurrency=THREADS,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        )
        started = actor.remote(self.kind, cores, int(resources.get("GPU", 0)) or 1)
        return RayJudge(node["NodeID"], str(node.get("NodeManagerHostname") or node["NodeID"][:8]), actor=started)

    async def _greet(self, place: Place, judge: RayJudge) -> None:
        try:
            judge.told = await self._answer(judge.actor.hello.remote(self._workers))
        except Exception as error:
            if self._judges.get(place) is judge:
                self._failed[place] = time.monotonic() + FAILED_SECONDS
                self._failures, self._last_failure = self._failures + 1, _last_line(error)
                self._lose(place, judge, f"it did not start: {self._last_failure}")
            return
        self._changed.set()
        if self._identity is not None:
            self._admit(judge)

    def _admit(self, judge: RayJudge) -> None:
        """Use it, or leave it out where it is of another make."""
        if judge.identity == self._identity:
            judge.lanes = judge.told["lanes"]
            self._dispatch()
            return
        make = maker_of(judge.told["fingerprint"])
        self._log(f"cluster: {judge.name} is left out: its device ({make}) or software is another than that of the first judge")
        for place in [place for place, other in self._judges.items() if other is judge]:
            self._left_out.add(place)
            del self._judges[place]
        self._kill(judge)

    async def _use_workers(self, workers: Workers) -> None:
        self._workers = workers
        ready = [(place, judge) for place, judge in self._judges.items() if judge.lanes]
        await asyncio.gather(*(self._use_workers_at(place, judge) for place, judge in ready))

    async def _use_workers_at(self, place: Place, judge: RayJudge) -> None:
        with self._losing_silent(place, judge):
            judge.told = await asyncio.wait_for(self._answer(judge.actor.hello.remote(self._workers)), SILENT_SECONDS)
            judge.lanes = judge.told["lanes"]

    def _submitted(self, request: ClusterRequest) -> None:
        if self._closed:
            self._settle(request, JudgeError("this judge was closed"))
        elif self._away is not None:
            self._settle(request, self._away)
        else:
            self._queue.add(request)
            self._dispatch()

    def _cancelled(self, request: ClusterRequest) -> None:
        early = Cancelled("the verdict was cancelled before it began")
        if self._queue.remove(request):
            self._settle(request, early)
        for judge in self._judges.values():
            if request in judge.running:
                self._end(judge, request, early)

    def _end(self, judge: RayJudge, request: ClusterRequest, why: Exception) -> None:
        """It is the actor that ends what has begun there, and says so."""
        if request.begun:
            judge.actor.cancel.remote(request.key)
        else:
            ended(judge, request)
            self._settle(request, why)
            self._dispatch()

    def _judge_closed(self, closed: JudgeName) -> None:
        for request in self._queue.drain():
            if request.judge is closed:
                self._settle(request, JudgeError("this judge was closed"))
            else:
                self._queue.add(request)
        for judge in self._judges.values():
            for request in [request for request in judge.running if request.judge is closed]:
                self._end(judge, request, JudgeError("this judge was closed"))
            if judge.lanes:
                judge.actor.close.remote(closed)

    def _dispatch(self) -> None:
        for judge, request in self._queue.assign(self._judges.values()):
            assert isinstance(judge, RayJudge)
            self._spawn(self._run(judge, request))

    async def _run(self, judge: RayJudge, request: ClusterRequest) -> None:
        while True:
            try:
                if not request.begun:  # nobody has heard yet of a judge that died while it was idle
                    await self._answer(judge.actor.ping.remote())
                    if request not in judge.running:
                        return
                    request.begun = True
                answer: ActorAnswer = await self._answer(
                    judge.actor.do.remote(request.key, request.method, request.judge, request.given, request.options)
                )
                break
            except self._ray.exceptions.ActorUnavailableError:
                # It may be there still, and at work: asked again by the same key, it does nothing twice.
                await asyncio.sleep(WATCH_SECONDS)
            except self._ray.exceptions.RayActorError as error:
                place = next((place for place, other in self._judges.items() if other is judge), None)
                if place is not None:
                    self._lose(
                        place, judge, f"its process {judge.told['pid']} died; Ray's logs there may say why", error.preempted
                    )
            except Exception as error:
                answer = ActorAnswer(error="JudgeError", text=f"the cluster could not do it: {one_line(str(error), 300)}")
                if isinstance(error, ConnectionError) or not self._ray.is_initialized():  # of `ray://`
                    if self._away is None:
                        self._give_up("the connection to the cluster is lost")
                    ended(judge, request)
                    self._settle(request, self._away or JudgeError(answer.text))
                    return
                break
            if request not in judge.running:  # it was lost with its judge, and is somebody else's now
                return
        if request in judge.running:
            ended(judge, request)
            self._settle(request, answer)
            self._dispatch()

    def _lose(self, place: Place, judge: RayJudge, why: str, preempted: bool = False) -> None:
        """The judge is gone. What it had under way is tried once more; that a machine was taken away on purpose, or was gone before, is nobody's
        fault."""
        del self._judges[place]
        if not self._closed:
            self._log(f"cluster: a judge on {judge.name} is gone: {why}")
        running, judge.running = judge.running, set()
        judge.lanes = 0
        for request in running:
            if request.done.cancelled():
                continue
            if preempted or not request.begun:
                self._queue.add(request)
            elif not self._queue.lost(request, judge):
                self._blame(request)
        self._kill(judge)
        self._changed.set()
        self._dispatch()

    def _blame(self, request: ClusterRequest) -> None:
        machines = " and ".join(dict.fromkeys(node[:8] for node in request.lost_at))
        told = f"The judge was lost {len(request.lost_at)} times while it ran, the last time alone (machines {machines})."
        try:
            found = ActorAnswer(request.blame(told))
        except JudgeError as error:
            found = ActorAnswer(error="JudgeError", text=str(error))
        self._settle(request, found)

    async def _close(self) -> None:
        self._closed = True
        for request in self._queue.drain():
            self._settle(request, JudgeError("this judge was closed"))
        for judge in list(self._judges.values()):
            for request in judge.running:
                self._settle(request, JudgeError("this judge was closed"))
            self._kill(judge)
        self._judges.clear()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _settle(self, request: ClusterRequest, answer: ActorAnswer | Exception) -> None:
        error = answer.exception if isinstance(answer, ActorAnswer) else answer
        with contextlib.suppress(InvalidStateError):  # whoever asked has gone
            if error is not None:
                request.done.set_exception(error)
            elif isinstance(answer, ActorAnswer):
                request.done.set_result(answer.found)

    def _kill(self, judge: RayJudge) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(judge.actor)

    async def _answer(self, reference: Any) -> Any:
        return await asyncio.wrap_future(reference.future())

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _apart(call: Callable[[], Any]) -> Future[Any]:
    """What may never return: the interpreter would wait at its end for a thread of a pool."""
    found: Future[Any] = Future()

    def work() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name="cluster-nodes", daemon=True).start()
    return found


def _last_line(error: Exception) -> str:
    """Where Ray tells a traceback, the error itself comes last."""
    return (str(error).strip().splitlines() or [""])[-1][:300]
