"""From what a client sent to the request that is judged: whose it is, which devices may judge it, and which task is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import HTTPException

from bottega.core.foreign_text import one_line
from bottega.languages import LANGUAGES
from bottega.service.known_tasks import KnownTasks
from bottega.service.records import Kind, Request
from bottega.service.requests import CheckBody, ProbeBody, TaskBody, VerdictBody, named
from bottega.service.store import Store
from bottega.service.tokens import Token


@dataclass(frozen=True)
class Intake:
    store: Store
    devices: tuple[str, ...]
    tasks: Mapping[str, KnownTasks]
    """By the kind of device: built-in tasks have other sizes on a GPU."""

    def verdict(self, body: VerdictBody, token: Token) -> Request:
        candidate = body.candidate
        if (
            candidate.language is not None and candidate.language not in LANGUAGES.names
        ):  # no plug-in is imported for a stranger
            raise HTTPException(422, f"candidate.language: no such language; use {', '.join(LANGUAGES.names)}")
        _refuse_long(candidate.source, "candidate.source", token)
        return self._request(
            "verdict",
            body,
            token,
            candidate=candidate.source,
            candidate_name=named(candidate.name),
            language=candidate.language or "",
        )

    def check(self, body: CheckBody, token: Token) -> Request:
        return self._request("check", body, token)

    def probe(self, body: ProbeBody, token: Token) -> Request:
        if not token.limits.own_tasks:  # the delivered file runs beside the task, in its sandbox
            raise HTTPException(403, "probing needs a token with own_tasks = true")
        _refuse_long(body.delivered, "delivered", token)
        return self._request("probe", body, token, candidate=body.delivered)

    def _request(self, kind: Kind, body: CheckBody, token: Token, **more: str) -> Request:
        devices = self.devices_named(body.device)
        source, name = self._task(body.task, token, devices[0].partition(":")[0])
        settings = body.settings.text(devices[0])  # says what the judge would not take, of a probe too
        if isinstance(body, ProbeBody):
            settings = body.arguments()
        return Request(token.name, kind, devices, source, name, settings=settings, priority=body.priority, run=body.run, **more)

    def devices_named(self, wanted: str | None) -> tuple[str, ...]:
        """One that is named, or all of a kind."""
        wanted = wanted or self.devices[0].partition(":")[0]
        kind = tuple(name for name in self.devices if name.partition(":")[0] == wanted)
        if not (found := (wanted,) if wanted in self.devices else kind):
            raise HTTPException(422, f"device: this server judges on {', '.join(self.devices)}, not on {one_line(wanted, 40)}")
        return found

    def _task(self, body: TaskBody, token: Token, kind: str) -> tuple[str, str]:
        """The task's text and name. A token that may not send tasks of its own may name, or send, those that the server has."""
        known = self.tasks[kind]
        if body.id is not None:
            if (task := known.get(body.id)) is not None:
                return task.source, task.label
            if (found := self.store.task_source(token.name, body.id)) is not None and token.limits.own_tasks:
                return found
            raise known.unknown(body.id)
        assert body.source is not None
        _refuse_long(body.source, "task.source", token)
        if not token.limits.own_tasks and not known.has_source(body.source):
            told = "this token may only name tasks that the server has; its operator may set own_tasks = true for it"
            raise HTTPException(403, told)
        return body.source, named(body.name)


def _refuse_long(source: str, name: str, token: Token) -> None:
    if len(source.encode(errors="surrogatepass")) > token.limits.source_bytes:
        raise HTTPException(413, f"{name}: larger than the {token.limits.source_kib} KiB that this token may send")
