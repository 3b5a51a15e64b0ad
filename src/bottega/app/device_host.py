"""The one place where a command chooses who judges: this machine, a `bottega serve` elsewhere (--server), or a Ray cluster (--cluster).

Nothing of Ray is imported unless a cluster is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bottega.app.terminal import say
from bottega.core.errors import UsageError
from bottega.judge.device_host import LOCAL, DeviceHost
from bottega.judge.remote import RemoteDevices


@contextmanager
def device_host(server: str | None = None, cluster: str | None = None) -> Iterator[DeviceHost]:
    if server is not None and cluster is not None:
        raise UsageError("--server and --cluster are two places to judge in: give one of them")
    if server is not None:
        yield RemoteDevices(server, fresh=True)
    elif cluster is not None:
        from bottega.cluster.judges import ClusterDevices

        with ClusterDevices(cluster, lambda text: say(f"bottega: {text}", err=True)) as host:
            yield host
    else:
        yield LOCAL
