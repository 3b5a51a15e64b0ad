"""Folders of compiled baselines: one for each task and version, kept within a size, never taken from whoever uses them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bottega.core.task import Task
from bottega.judge import baseline_cache
from bottega.judge.baseline_cache import BaselineCache, folder_name, trim
from bottega.judge.settings import Settings

TASK = Task("class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n")
OTHER = Task("class Model: x = 1\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n")


def test_another_task_precision_or_version_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = folder_name(TASK, Settings())
    assert plain == folder_name(TASK, Settings(baselines=("best",), quick=True, timeout=5))
    others = [
        folder_name(OTHER, Settings()),
        folder_name(TASK, Settings(precision="bf16")),
        folder_name(TASK, Settings(training=True)),
    ]
    for part in ("torch", "cpu"):
        monkeypatch.setattr(baseline_cache, "fingerprint", lambda device, part=part: {part: "another"})
        others.append(folder_name(TASK, Settings()))
    assert len({plain, *others}) == 6


def test_compilers_are_told_to_keep_their_files_there(tmp_path: Path) -> None:
    cache = BaselineCache(str(tmp_path), "one")
    assert set(cache.environment) == {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
    assert all(value.startswith(cache.path) for value in cache.environment.values())
    cache.close()
    nowhere = BaselineCache("", "one")
    assert nowhere.path == "" and nowhere.environment == {}
    nowhere.close()


def filled(root: Path, name: str, age: float) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "kernel.so").write_bytes(b"x" * 100_000)
    os.utime(folder, (1e9 - age, 1e9 - age))
    return folder


def test_the_least_recently_used_go_first_and_whole(tmp_path: Path) -> None:
    old, middle, new = (filled(tmp_path, name, age) for name, age in (("old", 300), ("middle", 200), ("new", 100)))
    trim(tmp_path, 250_000)
    assert not old.exists() and middle.exists() and new.exists()
    trim(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []  # locks too


def test_what_is_in_use_stays_and_a_use_makes_it_young(tmp_path: Path) -> None:
    old = filled(tmp_path / "compiled", "old", 300)
    young = filled(tmp_path / "compiled", "young", 100)
    used = BaselineCache(str(tmp_path), "old")
    trim(tmp_path / "compiled", 0)
    assert old.exists() and not young.exists()
    used.close()
    trim(tmp_path / "compiled", 0)
    assert not old.exists()


def test_half_a_removal_is_finished_by_the_next(tmp_path: Path) -> None:
    left = filled(tmp_path, "killed.going", 10)
    trim(tmp_path, 1 << 30)
    assert not left.exists()


def test_many_who_come_and_go_while_it_is_trimmed_always_have_a_folder(tmp_path: Path) -> None:
    wrong: list[str] = []

    def come_and_go() -> None:
        for _ in range(100):
            cache = BaselineCache(str(tmp_path), "one", 0)
            try:
                Path(cache.path, "file").write_text("here")
                if not Path(cache.path, "file").exists():
                    wrong.append("gone while in use")
            except OSError as error:
                wrong.append(str(error))
            finally:
                cache.close()
            trim(tmp_path / "compiled", 0)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
