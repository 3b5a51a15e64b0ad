"""Ray clusters of several machines, all of them processes here, with as little memory as Ray allows."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
STORE_BYTES = 80 << 20


@contextmanager
def ray_cluster(**head: Any) -> Iterator[Any]:
    """A cluster of one machine, which this process has joined. Not where another Ray may be found."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'bottega[cluster]'")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: names of sockets are bounded
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))  # workers import scripted judges
        given = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False, **head}
        cluster = Cluster(initialize_head=True, head_node_args={**given, "_system_config": HEALTH})
        try:
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR", namespace="bottega")
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def machine(cluster: Any, **given: Any) -> Any:
    return cluster.add_node(object_store_memory=STORE_BYTES, include_dashboard=False, **{"num_cpus": 1, **given})
