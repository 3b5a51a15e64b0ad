"""Judges in a Ray cluster with the methods of `Judge`: verdicts come from whichever of its devices is free, all of one make.

`ClusterDevices` is the cluster as a command sees it. Of each kind, `cpu` or `cuda`, it is one device with many lanes.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from bottega.cluster.address import ClusterAddress, imported, join, leave
from bottega.cluster.judge_actor import JudgeActor
from bottega.cluster.pool import ClusterPool
from bottega.cluster.request_queue import ClusterRequest, JudgeName, content_key
from bottega.core.candidate import Candidate
from bottega.core.closing import Closing
from bottega.core.device import DeviceFacts
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.device_host import maker_of
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.judge.machine import Workers
from bottega.judge.settings import Settings


class ClusterDevices(Closing):
    """Use it as a context manager: it ends its judges, and a Ray that it started. The cluster is joined when it is first needed: a command that is
    refused for another reason is so at once."""

    def __init__(
        self, words: str, log: Callable[[str], None] = lambda text: None, actor: type[JudgeActor] = JudgeActor
    ) -> None:
        self.cluster, self._log, self._actor = ClusterAddress.read(words), log, actor
        imported()
        self._pools: dict[str, ClusterPool] = {}
        self._lock = threading.Lock()
        self._asked = self._joined = False

    def close(self) -> None:
        while self._pools:
            self._pools.popitem()[1].close()
        if self._joined:
            self._joined = False
            leave()

    def chosen(self, words: str | None) -> tuple[str, ...]:
        """One kind: which of its devices judges what is the cluster's matter."""
        if words in ("cpu", "cuda"):
            return (words,)
        if words not in (None, "all"):
            raise UsageError(
                f"--device {words}: a cluster is asked for cpu or cuda; its machines and ADDRESS?make=NAME choose among them"
            )
        self._join()
        has_gpus = any(node["Alive"] and node["Resources"].get("GPU") for node in imported().nodes())
        if words == "all" and not has_gpus:
            raise UsageError("--device all: the cluster has no GPU; use --device cpu")
        return ("cuda",) if has_gpus else ("cpu",)

    def workers_of_each(self, workers: Workers, devices: Sequence[str]) -> Workers:
        return workers  # of each judge, by its own machine's cores

    def is_here(self, device: str) -> bool:
        here = socket.gethostname()
        return any(told["host"] == here and told["device"] == device for pool in self._pools.values() for told in pool.judges)

    def judge(self, device: str, workers: Workers = "auto", warn: object = None, **defaults: Any) -> ClusterJudge:
        """`warn` is heard on the judges' own machines, in Ray's logs."""
        pool = self._pool(device)
        pool.use_workers(workers)
        return ClusterJudge(pool, device, defaults)

    def fingerprint(self, device: str) -> dict[str, Any]:
        return {**self._pool(device).first["fingerprint"], "device": device}

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts(**self._pool(device).first["facts"])

    def _pool(self, device: str) -> ClusterPool:
        kind = self.chosen(device)[0]
        self._join()
        with self._lock:
            if kind not in self._pools:
                self._pools[kind] = ClusterPool(self.cluster, kind, self._log, self._actor)
            return self._pools[kind]

    def _join(self) -> None:
        with self._lock:
            if not self._asked:
                self._joined = join(self.cluster.address)
                self._asked = True


class ClusterJudge(Closing):
    """Use it as a context manager, or call `close`. Every method may be called from any thread."""

    def __init__(self, pool: ClusterPool, device: str, defaults: dict[str, Any]) -> None:
        own = {name: value for name, value in defaults.items() if name != "require_sandbox"}
        try:
            self.settings = Settings(device=device, **own)
        except TypeError as error:
            raise UsageError(f"unknown option for the judge: {error}") from None
        self._pool, self._name = pool, JudgeName(secrets.token_hex(8), defaults)
        self._asked: Counter[str] = Counter()
        """How often each content was asked for: whoever asks again has it measured again, and so has another judge."""
        self._lock = threading.Lock()

    @property
    def workers(self) -> int:
        return sum(told["workers"] for told in self._pool.judges) or 1

    @property
    def lanes(self) -> int:
        return sum(told["lanes"] for told in self._pool.judges) or 1

    def judge(self, task: Task, candidate: Candidate, *, cancellation: Cancellation | None = None, **options: Any) -> Verdict:
        """One verdict. A candidate under which two judges were lost has one that says so."""
        return self._waited(self._verdict(task, candidate, options), cancellation)  # type: ignore[no-any-return]

    def judge_many(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        """All are asked for at once: other judges help where they have nothing else to do."""
        asked = [self._sent(self._verdict(task, candidate, options)) for candidate in candidates]
        return [request.done.result() for request in asked]

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return await self._awaited(self._verdict(task, candidate, options))  # type: ignore[no-any-return]

    async def judge_many_async(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        return await asyncio.gather(*(self.judge_async(task, candidate, **options) for candidate in candidates))

    def fitness(self, task: Task, *, cancellation: Cancellation | None = None, **options: Any) -> dict[str, Any]:
        """Whether a task can be judged fairly, and why not. Raises `TaskError` when it cannot even be run."""
        self._settings(options)
        request = self._request(
            "fitness", task.source, (task,), options, _not_to_blame(f"{task.label}: its fitness is not known")
        )
        return self._waited(request, cancellation)  # type: ignore[no-any-return]

    def ask(self, entry: str, label: str, *, cancellation: Cancellation | None = None, **arguments: Any) -> dict[str, Any]:
        """What a function of ours finds in a sandboxed process on one of the devices."""
        source = str(arguments.get("source", label))
        request = self._request("ask", source, (entry, label), arguments, _not_to_blame(label))
        return self._waited(request, cancellation)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends its processes everywhere; calls under way fail. Other judges of the cluster go on."""
        self._pool.close_judge(self._name)

    def _verdict(self, task: Task, candidate: Candidate, options: dict[str, Any]) -> ClusterRequest:
        settings = self._settings(options)

        def blame(told: str) -> Verdict:
            more = "It may have used up the machine's memory or broken its device. Make it smaller or simpler."
            return Verdict(
                Outcome.RUNTIME_ERROR,
                diagnosis=f"{told} {more}",
                notes=(told,),
                task_id=task.id,
                candidate_id=candidate.id,
                fingerprint={**self._pool.first["fingerprint"], "settings": settings.to_json()},
            )

        return self._request("judge", task.source, (task, candidate), options, blame, candidate.source, candidate.language)

    def _request(
        self, method: str, task: str, given: tuple[Any, ...], options: dict[str, Any], blame: Callable[[str], Any], *more: str
    ) -> ClusterRequest:
        make = maker_of(self._pool.first["fingerprint"])
        content = content_key(method, task, more, self._name.defaults, options, make, JUDGE_VERSION)
        with self._lock:
            self._asked[content] += 1
            key = content_key(content, self._name.id, self._asked[content])
        return ClusterRequest(key, task, method, self._name, given, options, blame)

    def _sent(self, request: ClusterRequest) -> ClusterRequest:
        self._pool.submit(request)
        return request

    def _waited(self, request: ClusterRequest, cancellation: Cancellation | None = None) -> Any:
        self._sent(request)
        try:
            with (cancellation or Cancellation()).killing(lambda: self._pool.cancel(request)):
                return request.done.result()
        except Cancelled:
            self._pool.cancel(request)
            raise

    async def _awaited(self, request: ClusterRequest) -> Any:
        def gone(done: Future[Any]) -> None:
            if done.cancelled():
                self._pool.cancel(request)

        request.done.add_done_callback(gone)
        return await asyncio.wrap_future(self._sent(request).done)

    def _settings(self, options: dict[str, Any]) -> Settings:
        try:
            return replace(self.settings, **options)
        except TypeError as error:
            raise UsageError(f"unknown option for a verdict: {error}") from None


def _not_to_blame(what: str) -> Callable[[str], Any]:
    """No candidate runs: the machines or the task are at fault, and nobody gets a verdict for it."""

    def blame(told: str) -> Any:
        raise JudgeError(f"{what}: {told}")

    return blame
