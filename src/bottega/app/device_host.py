"""The one place where a command chooses who judges: this machine, a `bottega serve` elsewhere (--server), or a Ray cluster (--cluster).

Nothing of Ray is imported unless a cluster is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bottega.app.terminal import say
from bottega.core.errors import UsageError
from bottega.judge.device_host import LOCAL, DeviceHost, JudgeHost
from bottega.judge.remote import RemoteDevices


@contextmanager
def judge_host(cluster: str | None) -> Iterator[JudgeHost]:
    if cluster is None:
        yield LOCAL
        return
    from bottega.cluster.judges import ClusterDevices

    with ClusterDevices(cluster, lambda text: say(f"bottega: {text}", err=True)) as host:
        yield host


@contextmanager
def device_host(server: str | None, cluster: str | None = None) -> Iterator[DeviceHost]:
    if server is None:
        with judge_host(cluster) as host:
            yield host
        return
    if cluster is not None:
        raise UsageError("--server and --cluster are two places to judge in: give one of them")
    yield RemoteDevices(server, fresh=True)
