"""What a device's judge finds for one request, as JSON. The texts are a stranger's: nothing of them runs in this process."""

from __future__ import annotations

import json
from typing import Any, Protocol

from bottega.core.candidate import Candidate
from bottega.core.errors import TaskError
from bottega.core.files import strict
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.delivery.final import ENTRY as PROBE_ENTRY
from bottega.judge.cancellation import Cancellation
from bottega.judge.invalid_task import unusable
from bottega.languages import candidate_from
from bottega.service.records import Request


class JudgeOfDevice(Protocol):
    """What the dispatcher needs of a judge."""

    @property
    def lanes(self) -> int: ...
    def judge(self, task: Task, candidate: Candidate, *, cancellation: Cancellation, **options: Any) -> Verdict: ...
    def fitness(self, task: Task, *, cancellation: Cancellation, **options: Any) -> dict[str, Any]: ...
    def ask(self, entry: str, label: str, *, cancellation: Cancellation, **arguments: Any) -> dict[str, Any]: ...
    def close(self) -> None: ...


def judged(judge: JudgeOfDevice, request: Request, cancellation: Cancellation) -> tuple[dict[str, Any], str]:
    """What comes of a request, and the task's own id."""
    task = Task(request.task, request.task_name)
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(request.settings).items()}
    if request.kind == "verdict":
        named = request.language or candidate_from(request.candidate).language
        candidate = Candidate(request.candidate, named, request.candidate_name)
        verdict = judge.judge(task, candidate, cancellation=cancellation, **options)
        return strict(verdict.to_json()), verdict.task_id
    if request.kind == "probe":
        return _probed(judge, request, cancellation, options), ""
    try:
        return strict(judge.fitness(task, cancellation=cancellation, **options)), task.id
    except TaskError as error:
        return unusable(str(error)), ""


def _probed(judge: JudgeOfDevice, request: Request, cancellation: Cancellation, options: dict[str, Any]) -> dict[str, Any]:
    try:
        given = {"source": request.task, "delivered": request.candidate, **options}
        found: dict[str, Any] = strict({"found": judge.ask(PROBE_ENTRY, request.task_name, cancellation=cancellation, **given)})
        return found
    except TaskError as error:
        return {"failed": str(error)}
