"""Training ranks that Ray Train starts: the same run as torchrun's, errors and stops come through, and a killed rank costs nothing but time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'bottega[cluster]'")
pytest.importorskip("ray.train", reason="needs Ray Train: pip install 'ray[train]'", exc_type=ImportError)

import ray
from small_cluster import machine, ray_cluster
from tiny import counting_talks, saved_tiny
from waiting import until

from bottega.cluster import training
from bottega.cluster.training import Mailbox, TrainingJob, train_on_cluster
from bottega.core.errors import UsageError
from bottega.core.event import Measured
from bottega.episodes.journal import FILE, read_events
from bottega.train.config import read_config
from bottega.train.sft import sft

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SETTINGS = {
    "model.device": "cpu", "data.longest": 64, "data.pack_tokens": 64, "data.batch_tokens": 256, "data.steps": 4, "checkpoint.every": 1,
    "optimiser.lr": "1e-2", "log.tensorboard": "false",
}  # fmt: skip


def job(folder: Path, out: str, *overrides: str) -> TrainingJob:
    if not (folder / "model").exists():
        saved_tiny(folder / "model")
    settings = [*(f"{key}={value}" for key, value in SETTINGS.items()), f"model.name={folder / 'model'}"]
    return TrainingJob(
        "sft", read_config("sft", None, None, [*settings, *overrides]), folder / out, 2, source=counting_talks(folder)
    )


def losses(folder: Path) -> list[float]:
    told = [event for event in read_events(folder) if isinstance(event, Measured) and event.key.startswith("train/")]
    assert [event.step for event in told] == list(range(1, len(told) + 1)), "a step was lost, or told twice"
    return [event.values["loss"] for event in told]


def training_workers() -> list[int]:
    """Processes of the ranks in the cluster of this test, by the name that Ray gives them."""
    found = subprocess.run(["pgrep", "-f", "ray::RayTrainWorker"], capture_output=True, text=True, check=False).stdout.split()
    own = f"RAY_TMPDIR={os.environ['RAY_TMPDIR']}".encode()
    return [int(process) for process in found if own in Path(f"/proc/{process}/environ").read_bytes()]


def test_ranks_in_a_cluster_train_as_one_process_does_also_when_one_is_killed(tmp_path: Path) -> None:
    alone = job(tmp_path, "alone")
    assert alone.source is not None
    sft(alone.config, alone.source, alone.folder)
    heard: list[Any] = []
    with ray_cluster() as cluster:
        machine(cluster, num_cpus=3)

        def kill_once(event: Any) -> None:
            heard.append(event)
            if isinstance(event, Measured) and event.key == "train/2" and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(training_workers()[-1], signal.SIGKILL)

        finished = train_on_cluster("auto", job(tmp_path, "run"), kill_once)
        with pytest.raises(UsageError, match="holds a run already"):
            train_on_cluster("auto", job(tmp_path, "run"))
        with pytest.raises(UsageError, match="leaves nothing to train"):
            train_on_cluster("auto", job(tmp_path, "none", 'model.freeze=["model"]'))
    assert (finished.step, finished.steps) == (4, 4)
    assert (tmp_path / "killed").exists() and any(isinstance(event, Measured) for event in heard)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def test_what_ranks_tell_comes_by_the_commands_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may be lost, and with it an actor that Ray had put there."""

    class Found(Mailbox):
        def where(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

    monkeypatch.setattr(training, "Mailbox", Found)
    with ray_cluster() as cluster:
        for _ in range(2):
            machine(cluster)
        cluster.wait_for_nodes()
        places = ray.get([training.open_mailbox().where.remote() for _ in range(6)])
        assert set(places) == {ray.get_runtime_context().get_node_id()}


def test_a_killed_command_goes_on_with_the_same_command(tmp_path: Path) -> None:
    """Its Ray and the ranks in it die with it; the run's folder is all that is needed."""
    alone = job(tmp_path, "alone", "data.steps=30")
    assert alone.source is not None
    sft(alone.config, alone.source, alone.folder)
    given = [f"{key}={value}" for key, value in SETTINGS.items()] + ["data.steps=30", f"model.name={tmp_path / 'model'}"]
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    command = [sys.executable, "-m", "bottega", "sft", "--data", str(alone.source), "--out", str(tmp_path / "run"), "--quiet"]
    command += ["--cluster", "local", "--ranks", "2", *given]
    environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    driver = subprocess.Popen(command, env=environment)
    until(lambda: (tmp_path / "run" / FILE).exists() and "train/2" in (tmp_path / "run" / FILE).read_text(), 200)
    driver.kill()
    driver.wait()
    done = (tmp_path / "run" / FILE).read_text().count('"train/')
    assert done < 30, "it was over before it was killed"
    subprocess.run([*command, "--resume"], env=environment, check=True)
    assert losses(tmp_path / "run") == pytest.approx(losses(alone.folder), rel=1e-4)
    shutil.rmtree(folder, ignore_errors=True)
