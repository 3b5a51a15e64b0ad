"""A judge whose verdicts come from a `bottega serve` elsewhere: the methods of `Judge`, on a device that this machine need not have.

`RemoteDevices` is what a command needs to know of such a server before it judges: which devices it has, and what they are.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import JudgeError, TaskError, UsageError
from bottega.core.files import strict
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.invalid_task import UNUSABLE
from bottega.judge.machine import Workers
from bottega.judge.remote_client import PATIENCE, NotFound, ServerClient, token_from_environment
from bottega.judge.settings import OF_A_REQUEST, Settings

T = TypeVar("T")
WAIT_SECONDS = 25.0
"""How long one request waits for its verdict at the server: below what proxies cut off."""
LANES_AHEAD = 2
"""Verdicts to ask for, for each that the server judges at a time: the next one is there when one ends."""
RESENT = 3
"""How often a verdict is asked for anew that the server has forgotten: its results were pruned or lost."""


@dataclass(frozen=True)
class RemoteDevices:
    url: str
    token: str | None = None
    patience: float = PATIENCE
    fresh: bool = False
    """Whether its judges have everything measured anew, also what the server has judged before."""

    @cached_property
    def client(self) -> ServerClient:
        return ServerClient(self.url, self.token or token_from_environment(), self.patience)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """By the device's name, the server's first one first."""
        found = self.client.ask("GET", "/v1/devices").get("devices")
        try:
            return {str(row["name"]): row for row in found} if found else self._none()
        except (TypeError, KeyError):
            return self._none()

    def named(self, device: str | None) -> str:
        """The server's name for a device of which the user said `cuda`, `cuda:1`, `cpu` or nothing."""
        if device is None:
            return next(iter(self.rows))
        if device in self.rows:
            return device
        if fits := [name for name in self.rows if name.partition(":")[0] == device]:
            return fits[0]
        raise UsageError(f"{self.client.url} judges on {', '.join(self.rows)}, not on {device}")

    def chosen(self, words: str | None) -> tuple[str, ...]:
        """Several by comma, `all` for every device of the server's first kind, or its first device where nothing is said."""
        if words == "all":
            first = next(iter(self.rows)).partition(":")[0]
            return tuple(name for name in self.rows if name.partition(":")[0] == first)
        return (self.named(None),) if words is None else tuple(self.named(word.strip()) for word in words.split(","))

    def workers_of_each(self, workers: Workers, devices: Sequence[str]) -> Workers:
        return workers  # the server's choice

    def is_here(self, device: str) -> bool:
        return False

    def fingerprint(self, device: str) -> dict[str, Any]:
        return dict(self.rows[self.named(device)]["fingerprint"])

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts(**self.rows[self.named(device)]["facts"])

    def judge(self, device: str, workers: Workers = "auto", **defaults: Any) -> RemoteJudge:
        """How many workers there are is the server's choice."""
        return RemoteJudge(self.url, self.token, device, patience=self.patience, fresh=self.fresh, **defaults)

    def _none(self) -> dict[str, dict[str, Any]]:
        raise UsageError(f"{self.client.url}: names no devices; is that the address of `bottega serve`?")


class RemoteJudge:
    """Use it as a context manager, or call `close`. Every method may be called from any thread."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        device: str | None = None,
        *,
        patience: float = PATIENCE,
        fresh: bool = False,
        **defaults: Any,
    ) -> None:
        """`fresh`: everything is measured anew; otherwise a verdict that the server has on the same content stands."""
        self._devices = RemoteDevices(url, token, patience)
        self.device = self._devices.named(device)
        if served := sorted(defaults.keys() - set(OF_A_REQUEST)):
            raise UsageError(f"{', '.join(served)}: the server's own setting, not one of a request; leave it out with a server")
        try:
            self.settings = Settings(device=self.device, **defaults)
        except TypeError as error:
            raise UsageError(f"unknown option for the judge: {error}") from None
        self._chosen = defaults
        self._wanted = device or self.device.partition(":")[0]
        """As requests say it: one device, or any of a kind."""
        fits = [row for name, row in self._devices.rows.items() if self._wanted in (name, name.partition(":")[0])]
        self.workers = sum(int(row.get("lanes") or 1) for row in fits)
        self.lanes = LANES_AHEAD * self.workers
        """How many verdicts to ask for at a time to keep the server busy."""
        self._client = self._devices.client
        self._executor = ThreadPoolExecutor(max(32, self.lanes), thread_name_prefix="remote-judge")
        self._under_way: set[str] = set()
        self._fresh = fresh

    def __enter__(self) -> RemoteJudge:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        """One verdict. Raises `UsageError` for what the server refuses, and `JudgeError` where it has none to give."""
        body = {
            "task": _task_json(task),
            "candidate": {"source": candidate.source, "name": candidate.name, "language": candidate.language},
            **self._asked(options),
        }
        found = self._result("/v1/verdicts", body).get("verdict")
        try:
            verdict = Verdict.from_json(found if isinstance(found, dict) else {})
        except (KeyError, TypeError, ValueError) as error:
            raise JudgeError(
                f"{self._client.url}: its verdict cannot be read ({error!r}); is its version another one?"
            ) from None
        if verdict.candidate_id and verdict.candidate_id != candidate.id:
            raise JudgeError(f"{self._client.url}: sent the verdict of another candidate ({verdict.candidate_id})")
        return verdict

    def judge_many(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        return [self.judge(task, candidate, **options) for candidate in candidates]

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return await self._apart(partial(self.judge, task, candidate, **options))

    async def judge_many_async(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        return await self._apart(partial(self.judge_many, task, candidates, **options))

    def fitness(self, task: Task, **options: Any) -> dict[str, Any]:
        """Whether a task can be judged fairly, and why not. Raises `TaskError` when it cannot even be run."""
        report = self._result("/v1/tasks/check", {"task": _task_json(task), **self._asked(options)}).get("report")
        if not isinstance(report, dict):
            raise JudgeError(f"{self._client.url}: its report cannot be read; is its version another one?")
        for problem in report.get("problems", ()):
            if problem.get("name") == UNUSABLE:
                raise TaskError(str(problem.get("detail")))
        return report

    def ask(self, entry: str, label: str, **arguments: Any) -> dict[str, Any]:
        """What delivering a kernel asks beside the device; the server knows the function itself. `TaskError` when it finds nothing."""
        body = {"task": {"source": arguments.pop("source"), "name": label}, **arguments, **self._asked({})}
        chosen = {name: value for name, value in body["settings"].items() if name in ("precision", "training")}
        report = self._result("/v1/probes", {**body, "settings": chosen}).get("report")
        found = report.get("found") if isinstance(report, dict) else None
        if not isinstance(found, dict):
            raise TaskError(str(report.get("failed")) if isinstance(report, dict) else f"{label}: gave no answer")
        return found

    def close(self) -> None:
        """Ends waiting calls, which fail; what they asked for is cancelled at the server."""
        under_way = list(self._under_way)
        self._client.close()
        for place in under_way:
            self._client.try_once("DELETE", place)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _apart(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _asked(self, options: dict[str, Any]) -> dict[str, Any]:
        options = {name: value for name, value in options.items() if name != "own_code"}  # a server trusts nobody's
        if unknown := sorted(options.keys() - set(OF_A_REQUEST)):
            raise UsageError(f"unknown option for a verdict by a server: {', '.join(unknown)}")
        chosen = {**self._chosen, **options}
        replace(self.settings, **chosen)  # says now what the server would refuse
        again = {"run": secrets.token_hex(8)} if self._fresh else {}
        return {"device": self._wanted, "settings": strict(chosen), **again}

    def _result(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        """What came of a request, however often the connection or the server was lost meanwhile."""
        place, forgotten = "", 0
        try:
            while True:
                begun = time.monotonic()
                try:
                    if place:
                        found = self._client.ask("GET", f"{place}?wait={WAIT_SECONDS:g}", wait=WAIT_SECONDS)
                    else:
                        found = self._client.ask(
                            "POST", route, body
                        )  # without waiting: whoever closes this judge can cancel it then
                except NotFound:
                    forgotten += 1
                    if not place or forgotten > RESENT:
                        raise
                    self._under_way.discard(place)
                    place = ""
                    continue
                if not place:
                    place = f"{route}/{found.get('id', '')}"
                    self._under_way.add(place)
                state = found.get("state")
                if state == "done":
                    return found
                if state in ("failed", "cancelled"):
                    raise JudgeError(f"{self._client.url}: {found.get('error') or f'the request was {state}'}")
                if time.monotonic() - begun < 0.1:  # a server that is about to stop answers at once
                    time.sleep(0.5)
        finally:
            self._under_way.discard(place)


def _task_json(task: Task) -> dict[str, Any]:
    return {"source": task.source, "name": task.label}
