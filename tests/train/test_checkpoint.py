"""Checkpoints: whole or not at all, and what comes back is what was there."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402
from tiny import one_thread, random_rows, tiny_llama  # noqa: E402, F401
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402

from bottega.core.errors import TrainingError  # noqa: E402
from bottega.train.checkpoint import Checkpoints, random_states, set_random_states, written_whole  # noqa: E402
from bottega.train.checksums import damage  # noqa: E402
from bottega.train.learner import Learner  # noqa: E402
from bottega.train.settings import Config, LossSettings, OptimiserSettings  # noqa: E402


class Run:
    def __init__(self, seed: int = 0, **changes: Any) -> None:
        config = Config(optimiser=OptimiserSettings(lr=1e-2), loss=LossSettings(normalise="tokens"))
        self.learner = Learner.begin(config, tiny_llama(seed, **changes))
        self.packs = self.learner.policy.packs(random_rows(6), 64)

    def step(self, number: int) -> float:
        return self.learner.update(self.packs, number, 10).loss


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    run, keeping = Run(), Checkpoints(tmp_path)
    for number in range(3):
        run.step(number)
    keeping.save(3, run.learner, {"library_version": 7})
    expected = [run.step(number) for number in range(3, 6)]
    other = Run(seed=1)
    saved = keeping.latest(run.learner)
    assert saved is not None
    assert (saved.step, saved.state) == (3, {"library_version": 7})
    keeping.load(saved, other.learner)
    assert [other.step(number) for number in range(3, 6)] == expected


@pytest.mark.parametrize("file", ["tensors/__0_0.distcp", "tensors/.metadata", "random.pt"])
def test_a_checkpoint_with_other_bytes_is_passed_over(file: str, tmp_path: Path) -> None:
    """As long as before, so that its size tells nothing; torch itself would go on with such weights."""
    run, keeping = Run(), Checkpoints(tmp_path)
    for step in (1, 2):
        run.step(step)
        keeping.save(step, run.learner, {})
    damaged = tmp_path / "step-00000002" / file
    content = bytearray(damaged.read_bytes())
    for place in range(len(content) // 2, len(content) // 2 + 64):
        content[place] ^= 0x5A
    damaged.write_bytes(content)
    saved = keeping.latest(run.learner)
    assert saved is not None and saved.step == 1 and "damaged" in keeping.passed_over[0]
    keeping.load(saved, Run(seed=1).learner)


def test_every_rank_reads_its_share_of_a_checkpoint_and_together_they_read_all(tmp_path: Path) -> None:
    run, keeping = Run(), Checkpoints(tmp_path)
    run.step(0)
    tensors = keeping.save(1, run.learner, {}) / "tensors"
    (file,) = tensors.glob("*.distcp")
    places = list(FileSystemReader(tensors).read_metadata().storage_data.values())
    content = file.read_bytes()
    for place in places[:: len(places) // 5]:
        middle = place.offset + place.length // 2
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 0x5A]) + content[middle + 1 :])
        assert sum(bool(damage(tensors, rank, 3)) for rank in range(3)) == 1
    file.write_bytes(content)
    assert not any(damage(tensors, rank, 3) for rank in range(3))


def test_random_states_come_back() -> None:
    import numpy as np

    states = random_states()
    first = random.random(), np.random.rand(), torch.rand(1).item()
    set_random_states(states)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == first


def test_so_many_are_kept_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    run, keeping = Run(), Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        keeping.save(step, run.learner, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-00000002", "step-00000003"]
    (weights,) = (tmp_path / "step-00000003" / "tensors").glob("*.distcp")
    weights.write_bytes(weights.read_bytes()[:-1])
    saved = keeping.latest(run.learner)
    assert saved is not None
    assert saved.step == 2
    assert "not whole" in keeping.passed_over[0]


def test_a_kill_in_the_middle_of_saving_leaves_the_last_one(tmp_path: Path) -> None:
    run, keeping = Run(), Checkpoints(tmp_path)
    keeping.save(1, run.learner, {})
    (tmp_path / ".step-00000002.99").mkdir()
    (tmp_path / ".step-00000002.99" / "random.pt").write_bytes(b"half")
    (tmp_path / "step-00000002").mkdir()
    saved = keeping.latest(run.learner)
    assert saved is not None
    assert saved.step == 1
    keeping.save(2, run.learner, {})
    assert not list(tmp_path.glob(".*"))
    saved = keeping.latest(run.learner)
    assert saved is not None
    assert saved.step == 2


def test_what_a_killed_process_half_wrote_of_a_model_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".model.12345").mkdir()
    written_whole(tmp_path / "model", lambda folder: None)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_without_any_there_is_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nowhere").latest(Run().learner) is None


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run, keeping = Run(), Checkpoints(tmp_path)
    keeping.save(1, run.learner, {})
    saved = keeping.latest(run.learner)
    assert saved is not None
    other = Run(num_hidden_layers=1)
    with pytest.raises(TrainingError, match="another model"):
        keeping.load(saved, other.learner)
    content = json.loads((saved.folder / "state.json").read_text())
    (saved.folder / "state.json").write_text(json.dumps({**content, "format": 99}))
    assert keeping.latest(run.learner) is None
    assert "newer" in keeping.passed_over[0]
    (saved.folder / "state.json").write_text(json.dumps({**content, "format": 1}))
    assert keeping.latest(run.learner) is None
    assert "older" in keeping.passed_over[0]


def test_a_disk_that_is_full_when_the_model_is_written_is_told(tmp_path: Path) -> None:
    """No file may grow beyond: writing fails as on a full disk, and safetensors says so in its own way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(TrainingError, match=r"model: cannot be written .*File too large.*make room"):
            written_whole(
                tmp_path / "model", lambda folder: save_file({"weight": torch.zeros(999)}, folder / "model.safetensors")
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


FULL_DISK = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_checkpoint import Run
from bottega.core.errors import TrainingError
from bottega.train.checkpoint import Checkpoints
run, keeping = Run(), Checkpoints(Path(sys.argv[1]))
keeping.save(1, run.learner, {})
run.step(0)  # now there is an optimiser state, too
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))  # no file may grow beyond: writing fails as on a full disk
try:
    keeping.save(2, run.learner, {})
except TrainingError as error:
    print("refused:", error)
"""


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_old_checkpoint_stands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "refused:" in done.stdout, done.stderr
    assert "earlier ones stand" in done.stdout
    saved = Checkpoints(tmp_path).latest(Run().learner)
    assert saved is not None
    assert saved.step == 1
    assert not list(tmp_path.glob(".step*"))
