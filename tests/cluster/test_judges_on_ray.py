"""The real judge in Ray's workers: its processes die with them, and a bench comes to the same whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process_tree import descendants, gone
from small_bench import CPP, cpp_text, task_folder
from small_cluster import machine, ray_cluster
from typer.testing import CliRunner
from waiting import until

from bottega.app.bench_command import app
from bottega.bench.run_directory import ATTEMPTS, read_run
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome
from bottega.languages import candidate_from

pytest.importorskip("ray", reason="needs Ray: pip install 'bottega[cluster]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HANGS = "import time\n\nclass ModelNew:\n    def __init__(self):\n        time.sleep(600)\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(num_cpus=1) as cluster:
        yield cluster


@pytest.fixture
def bench(tmp_path: Path) -> tuple[str, ...]:
    """A right kernel, a wrong one and one that does not compile, of each of two tasks."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name, expression in CPP.items():
        for number, text in enumerate((expression, "0", "no C++")):
            (theirs / f"{name}.{number}.py").write_text(cpp_text(text))
    return (str(task_folder(tmp_path)), "--candidates", str(theirs), "levels=1", "quick=true", "quiet=true")


def test_the_sandbox_holds_and_its_processes_die_with_the_worker(cluster: Any, tmp_path: Path) -> None:
    task = Task((task_folder(tmp_path) / "level1/1_Relu.py").read_text())
    with ClusterDevices("auto?cores=1") as host, host.judge("cpu", quick=True) as judge:
        verdict = judge.judge(task, candidate_from(cpp_text(CPP["1_Relu"])))
        assert verdict.outcome.accepted and verdict.fingerprint["device"] == "cpu"
        assert "OMP_NUM_THREADS" in os.environ or "OMP_NUM_THREADS" not in _environment(host)
        pid = host._pool("cpu").judges[0]["pid"]
        hanging = threading.Thread(target=_ask_in_vain, args=(judge, task))
        hanging.start()
        until(lambda: len(descendants(pid)) > 4)
        below = descendants(pid)
        os.kill(pid, signal.SIGKILL)
        assert gone(below)
        judge.close()
        hanging.join(60)


def test_a_machine_lost_in_the_middle_of_a_bench_changes_no_figure(
    cluster: Any, bench: tuple[str, ...], tmp_path: Path
) -> None:
    other, run = machine(cluster, num_cpus=1), tmp_path / "run"

    def lose() -> None:
        until(lambda: _attempts(run), 300)
        cluster.remove_node(other, allow_graceful=False)

    losing = threading.Thread(target=lose)
    losing.start()
    ran = CliRunner().invoke(app, [*bench, "--out", str(run), "--cluster", "auto?cores=1"])
    losing.join()
    assert ran.exit_code == 0, (ran.output, ran.exception)
    alone = CliRunner().invoke(app, [*bench, "--out", str(tmp_path / "alone")])
    assert alone.exit_code == 0, (alone.output, alone.exception)
    assert _outcomes(run) == _outcomes(tmp_path / "alone")
    there, here = (read_run(folder).fingerprint for folder in (run, tmp_path / "alone"))
    assert there == here, "a run may go on without the cluster"


def test_a_killed_driver_goes_on_with_the_same_command(bench: tuple[str, ...], tmp_path: Path) -> None:
    """With a Ray of its own, which dies with it."""
    run, folder = tmp_path / "run", tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    command = [sys.executable, "-m", "bottega", "bench", *bench, "--out", str(run), "--cluster", "local?cores=1"]
    environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen(command, env=environment)
    until(lambda: _attempts(run), 300)
    below = descendants(driver.pid)
    driver.kill()
    driver.wait()
    done = _attempts(run)
    assert gone(below, 150)  # two processes of Ray itself need a minute to see it
    assert 0 < done < 6
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert len(read_run(run).attempts) == 6, "read_run refuses an attempt that is there twice"
    shutil.rmtree(folder, ignore_errors=True)


OWN = """
import os, signal, time
heard = []
signal.signal(signal.SIGTERM, lambda *given: heard.append(1))
from bottega.cluster.judges import ClusterDevices
from bottega.cluster.address import imported
with ClusterDevices("local") as host:
    host.chosen(None)
    ray = imported()
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    os.killpg(0, signal.SIGTERM)
    try:
        ray.get(ray.remote(die).options(max_retries=0).remote(), timeout=60)
    except ray.exceptions.WorkerCrashedError:
        time.sleep(2)
        print(heard, [node["Alive"] for node in ray.nodes()])
"""


def test_signals_and_standard_output_are_the_commands_own_also_after_ray_has_started(tmp_path: Path) -> None:
    """SIGTERM to the process group leaves its Ray alone, and a worker that dies is not told of beside what the command prints."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", OWN], env=environment, capture_output=True, text=True, check=False, start_new_session=True
    )
    assert ran.stdout.strip() == "[1] [True]", ran.stdout + ran.stderr
    shutil.rmtree(folder, ignore_errors=True)


def test_a_command_that_has_no_answer_to_sigterm_ends_its_ray_with_it() -> None:
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    code = (
        "import time\nfrom bottega.cluster.judges import ClusterDevices\n"
        "with ClusterDevices('local') as host:\n    host.chosen(None)\n    print('up', flush=True)\n    time.sleep(600)\n"
    )
    environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        below = descendants(process.pid)
        assert below
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
        assert gone(below, 20)
    shutil.rmtree(folder, ignore_errors=True)


def _ask_in_vain(judge: Any, task: Task) -> None:
    with pytest.raises(JudgeError, match=r"closed|cancelled"):
        judge.judge(task, candidate_from(HANGS))


def _environment(host: ClusterDevices) -> str:
    """Of the fork server of the first judge, as it was started."""
    pid = host._pool("cpu").judges[0]["pid"]
    servers = [one for one in descendants(pid) if "bottega.sandbox.fork_server" in Path(f"/proc/{one}/cmdline").read_text()]
    return Path(f"/proc/{servers[0]}/environ").read_text()


def _attempts(run: Path) -> int:
    return len((run / ATTEMPTS).read_text().splitlines()) if (run / ATTEMPTS).exists() else 0


def _outcomes(run: Path) -> dict[tuple[str, int], str]:
    """What no clock decides."""
    accepted = {outcome: "accepted" for outcome in Outcome if outcome.accepted}
    found = {(one.task, one.sample): one.verdict.outcome for one in read_run(run).attempts if one.verdict is not None}
    return {key: accepted.get(outcome, outcome.value) for key, outcome in found.items()}
