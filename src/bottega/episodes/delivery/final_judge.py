"""The judges of a run: one that can be closed while it judges, and one for what is delivered, which can also ask a sandboxed process."""

from __future__ import annotations

import time
from typing import Any

from bottega.core.errors import TaskError
from bottega.judge.judge import Judge
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair

ENTRY = "bottega.episodes.delivery.probe:main"


CLOSING_ATTEMPTS = 50


class RunJudge(Judge):
    def close(self) -> None:
        """Also while a verdict is under way. `Judge.close` may meet a thread that is listed and not started yet; then it is asked again."""
        for attempt in range(CLOSING_ATTEMPTS):
            try:
                super().close()
                return
            except RuntimeError:
                if attempt == CLOSING_ATTEMPTS - 1:
                    raise
                time.sleep(0.02)


class FinalJudge(RunJudge):
    def __enter__(self) -> FinalJudge:
        return self

    def ask(self, do: str, label: str, **arguments: Any) -> dict[str, Any]:
        """What `probe` finds, in a process of its own. `TaskError` when it finds nothing: the module's own code has failed there."""
        machine, settings = self._pool.machine(), self.settings
        ours, theirs = channel_pair()
        try:
            sandbox = machine.server.spawn(
                ENTRY,
                fds=[theirs.fileno()],
                arguments={
                    "do": do,
                    "device": machine.device,
                    "training": settings.training,
                    "precision": settings.precision,
                    **arguments,
                },
                limits=machine.limits,
                environment=machine.environment,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
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
