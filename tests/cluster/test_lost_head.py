"""The cluster's head is gone. After a minute Ray ends whoever asks it, without a word of ours: the command ends before, in order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.cluster import pool
from bottega.cluster.address import ClusterAddress
from bottega.cluster.judge_actor import code_digest
from bottega.cluster.request_queue import ClusterRequest, JudgeName
from bottega.core.errors import NoJudgeError


def test_a_head_that_says_nothing_is_given_up_and_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = threading.Event()
    monkeypatch.setattr(pool, "imported", lambda: SimpleNamespace(nodes=silent.wait))
    monkeypatch.setattr(pool, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(pool, "WATCH_SECONDS", 0.05)
    begun, log = time.monotonic(), list[str]()
    with pytest.raises(NoJudgeError, match=r"head of the cluster has not answered for 0\.1 s"):
        pool.ClusterPool(ClusterAddress(), "cpu", log.append)
    assert time.monotonic() - begun < 30 and len(log) == 1
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "cluster-nodes")
    silent.set()


class Disconnected:
    """Ray after `ray://` has lost its connection: one judge had come up, and whatever is asked raises."""

    exceptions = SimpleNamespace(RayError=OSError, RayActorError=LookupError, ActorUnavailableError=KeyError)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "one", "Alive": True, "Resources": {"CPU": 1.0}}]

    def is_initialized(self) -> bool:
        return False

    def kill(self, actor: Any) -> None: ...

    @property
    def hello(self) -> Any:
        told = {"lanes": 1, "workers": 1, "fingerprint": {}, "code": code_digest(), "pid": 0}
        known: Future[Any] = Future()
        known.set_result(told)
        return SimpleNamespace(remote=lambda workers: SimpleNamespace(future=lambda: known))

    @property
    def do(self) -> Any:
        def remote(*given: Any) -> Any:
            raise Exception("Ray Client is not connected.")

        return SimpleNamespace(remote=remote)


def test_a_lost_connection_is_no_judge_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else training would ask three times, and learn from a step without verdicts."""
    ray, log = Disconnected(), list[str]()
    monkeypatch.setattr(pool, "imported", lambda: ray)
    monkeypatch.setattr(pool.ClusterPool, "_start", lambda self, node: pool.RayJudge("one", "one", actor=ray))
    opened = pool.ClusterPool(ClusterAddress(), "cpu", log.append)
    try:
        for number in range(2):
            asked = ClusterRequest(str(number), "task", "judge", JudgeName("j"), (), {}, lambda told: told)
            opened.submit(asked)
            with pytest.raises(NoJudgeError, match="connection to the cluster is lost"):
                asked.done.result(30)
    finally:
        opened.close()


DRIVER = """
import os, signal, sys, time
from bottega.cluster import pool
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import NoJudgeError
from process_tree import descendants
from scripted_actor import TASK, ScriptedActor, candidate
pool.HEAD_SECONDS = 5.0
with ClusterDevices("local?cores=1", actor=ScriptedActor) as host, host.judge("cpu") as judge:
    def commands():
        return {pid: open(f"/proc/{pid}/cmdline").read() for pid in descendants(os.getpid())}
    os.kill(next(pid for pid, words in commands().items() if "gcs_server" in words), signal.SIGKILL)
    for text in ("judge 20 x", "judge 0 x"):
        try:
            print(judge.judge(TASK, candidate(text)).diagnosis)
        except NoJudgeError as error:
            print(error)
sys.exit(7)
"""


@pytest.mark.slow
def test_a_command_whose_head_was_killed_ends_in_order() -> None:
    """With its own exit code, and before Ray ends it with 1."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'bottega[cluster]'")
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent), *sys.path]
    environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 7, ran.stdout + ran.stderr
    assert ran.stdout.count("the head of the cluster has not answered") == 2, ran.stdout
    shutil.rmtree(folder, ignore_errors=True)
