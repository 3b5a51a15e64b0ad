"""Machines of a real Ray whose checkouts differ under one version: a cluster of its own, since its first machine has the other code."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from scripted_actor import TASK, ScriptedActor, candidate
from small_cluster import machine, ray_cluster
from waiting import until

import bottega
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import UsageError


def devices(log: list[str] | None = None) -> ClusterDevices:
    return ClusterDevices("auto?cores=1", (log if log is not None else []).append, ScriptedActor)


@pytest.mark.slow
def test_machines_with_other_code_under_the_same_version_are_not_used(tmp_path: Path) -> None:
    """A line more in one file of a checkout that its workers import."""
    other = tmp_path / "src"
    shutil.copytree(Path(bottega.__file__).parent, other / "bottega", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    with open(other / "bottega" / "core" / "verdict.py", "a") as file:
        file.write("# changed here\n")
    with ray_cluster() as cluster:
        path = os.pathsep.join([str(other), os.environ["PYTHONPATH"]])
        changed, log = machine(cluster, env_vars={"PYTHONPATH": path}), list[str]()
        with devices() as host, pytest.raises(UsageError, match="other code of Bottega than this one"):
            host.judge("cpu")
        same = machine(cluster)
        with devices() as host, pytest.raises(UsageError, match="different software"):
            host.judge("cpu")
        cluster.remove_node(changed)
        with devices(log) as host, host.judge("cpu") as judge:
            machine(cluster, env_vars={"PYTHONPATH": path})
            until(lambda: any("left out" in line for line in log), 120)
            assert judge.judge(TASK, candidate("judge 0 x")).diagnosis == "judge 0 x" and judge.workers == 1
        cluster.remove_node(same)
