"""How records, devices and figures look on the wire."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from bottega.judge.device_host import DeviceHost
from bottega.service.dispatcher import Dispatcher
from bottega.service.records import ENDED, Record

PING_SECONDS = 15.0


def record_json(dispatcher: Dispatcher, record: Record) -> dict[str, Any]:
    """A record as clients see it."""
    told: dict[str, Any] = {"id": record.id, "state": record.state, "accepted_at": _moment(record.accepted)}
    if record.state == "queued" and record.id in dispatcher.queue:
        told["ahead"] = dispatcher.queue.ahead(record.id)
        if reason := dispatcher.withheld(record.token):
            told["note"] = f"it waits: {reason}"
    if record.device:
        told["device"] = record.device
    if record.started is not None:
        told["seconds"] = round(max(0.0, (record.ended or time.time()) - record.started), 3)
    if record.task_id:
        told["task_id"] = record.task_id
    if record.result is not None:
        told["verdict" if record.kind == "verdict" else "report"] = record.result
    if record.error:
        told["error"] = record.error
    return told


def row_json(dispatcher: Dispatcher, record: Record) -> dict[str, Any]:
    """A record in a list: without its result, of which only the outcome is told."""
    told = record_json(dispatcher, replace(record, result=None))
    told |= {"task": record.task_name, "candidate": record.candidate_name}
    return told if record.result is None else {**told, "outcome": record.result.get("outcome")}


async def events(dispatcher: Dispatcher, record: Record) -> AsyncIterator[str]:
    """A line that means nothing comes now and then, so that nobody on the way takes the connection for dead."""
    last = ""
    while True:
        told = json.dumps(record_json(dispatcher, record))
        if told != last:
            last = told
            yield f"event: {record.state}\ndata: {told}\n\n"
        else:
            yield ": still there\n\n"
        if record.state in ENDED or dispatcher.stopping:
            return
        record = await dispatcher.changed(record, PING_SECONDS)


def device_rows(dispatcher: Dispatcher, host: DeviceHost) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "lanes": judge.lanes,
            "queued": dispatcher.queue.length(name),
            "running": dispatcher.running(name),
            "facts": host.facts(name).to_json(),
            "fingerprint": host.fingerprint(name),
        }
        for name, judge in dispatcher.judges.items()
    ]


def metrics_text(dispatcher: Dispatcher) -> str:
    judges = dispatcher.judges.items()
    return dispatcher.metrics.text(
        {
            "bottega_queue_length": [({"device": name}, dispatcher.queue.length(name)) for name, _ in judges],
            "bottega_running": [({"device": name}, dispatcher.running(name)) for name, _ in judges],
            "bottega_lanes": [({"device": name}, judge.lanes) for name, judge in judges],
            "bottega_store_bytes": [({}, dispatcher.store.bytes())],
        }
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
