"""What `make release` relies on: every extra is tried, the version has its section, and the container gives up its rights."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNTRIED = {"vllm"}


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """tools/release.py, which is no part of a package."""
    specification = importlib.util.spec_from_file_location("bottega_release", ROOT / "tools/release.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules["bottega_release"] = module
    specification.loader.exec_module(module)
    return module


def test_every_extra_is_tried(release: ModuleType) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) - UNTRIED == set(release.IMPORTS)


def test_what_a_release_must_hold_is_there(release: ModuleType) -> None:
    assert all((ROOT / "src/bottega" / name).exists() for name in release.NEEDED)
    own = [name for names in release.IMPORTS.values() for name in names if name.startswith("bottega.")]
    assert own and all((ROOT / "src" / Path(*name.split("."))).with_suffix(".py").is_file() for name in own)


def test_the_version_has_a_section_and_one_without_is_refused(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert release.checked_version()
    (tmp_path / "src/bottega").mkdir(parents=True)
    (tmp_path / "src/bottega/__init__.py").write_text('__version__ = "9.9.9"\n')
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0, 2026-11-16\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"9\.9\.9"):
        release.checked_version()


def test_the_container_runs_as_a_user_without_rights() -> None:
    text = (ROOT / "Containerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    users = re.findall(r"^USER (\S+)", last, re.M)
    assert users and users[-1].split(":")[0].isdigit() and int(users[-1].split(":")[0]) >= 1000
    assert "sudo" not in text and not re.search(r"^ADD http", text, re.M)
    assert last.index("\nUSER ") < last.index("\nENTRYPOINT ")
