"""Every test of the runtime builds into a folder of its own, so that nothing comes from an earlier run."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def build_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "build"
    monkeypatch.setenv("BOTTEGA_BUILD_DIR", str(folder))
    return folder
