"""Runs a function of ours in a sandboxed process on the judge's device, and returns what it found.

For code that must see a task beside the device without timing it: what a module looks like, whether a delivered file can stand in for it.
"""

from __future__ import annotations

import time
from typing import Any

from bottega.core.errors import TaskError
from bottega.judge.cancellation import Cancellation
from bottega.judge.machine import Machine
from bottega.judge.settings import Settings
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair


def ask(
    machine: Machine, settings: Settings, cancellation: Cancellation, entry: str, label: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """`entry` is `module:function`. `TaskError` when it finds nothing: the code under `label` has failed there."""
    ours, theirs = channel_pair()
    chosen = {"device": machine.device, "training": settings.training, "precision": settings.precision}
    try:
        sandbox = machine.server.spawn(
            entry,
            fds=[theirs.fileno()],
            arguments={**chosen, **arguments},
            limits=machine.limits,
            environment=machine.environment,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    try:
        with cancellation.killing(sandbox.kill):
            reply = Channel(ours, takes_descriptors=False).receive(time.monotonic() + settings.task_timeout)
    except DeadlinePassed:
        raise TaskError(f"{label}: did not answer within {settings.task_timeout:g} s") from None
    except (ChannelClosed, ProtocolError):
        raise TaskError(f"{label}: ended its process when it was looked at") from None
    finally:
        sandbox.kill()
        sandbox.control.close()
        ours.close()
    found = reply.get("found")
    if not isinstance(found, dict):
        raise TaskError(f"{label}: {reply.get('failed') or 'gave no answer'}")
    return found
