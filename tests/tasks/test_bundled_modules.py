"""Modules beside a user's file travel inside of the task's text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bottega.tasks.bundled_modules import with_bundled_modules


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(text: str, folder: Path) -> str:
    """What a text prints in a place where nothing lies beside it."""
    folder.mkdir()
    (folder / "alone.py").write_text(text)
    return subprocess.run([sys.executable, "alone.py"], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_a_file_with_nothing_beside_it_stays_as_it_is(tmp_path: Path) -> None:
    text = "import json\nfrom torch import nn\n"
    assert with_bundled_modules(text, tmp_path / "model.py") == text


def test_relative_and_absolute_imports_are_followed(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/deep/__init__.py": "from . import leaf\n",
            "pkg/deep/leaf.py": "from ..sizes import SIZE\ndef double():\n    return 2 * SIZE\n",
            "pkg/sizes.py": "SIZE = 21\n",
            "pkg/not_used.py": "raise RuntimeError\n",
        },
    )
    text = '"""Doc."""\nfrom __future__ import annotations\nfrom .deep import (\n    leaf as found,\n)\nprint(found.double())\n'
    made = with_bundled_modules(text, tmp_path / "pkg" / "model.py")
    assert "not_used" not in made and "from pkg.deep import leaf as found\n" in made
    assert run(made, tmp_path / "elsewhere") == "42\n"


def test_the_users_own_package_is_taken_where_it_can_be_imported(tmp_path: Path) -> None:
    written(tmp_path, {"near.py": "WHO = 'carried'\n"})
    made = with_bundled_modules("import near\nprint(near.WHO)\n", tmp_path / "model.py")
    assert run(made, tmp_path / "alone") == "carried\n"
    written(tmp_path / "there", {"near.py": "WHO = 'own'\n", "alone.py": made})
    told = subprocess.run([sys.executable, "alone.py"], cwd=tmp_path / "there", capture_output=True, text=True, check=True)
    assert told.stdout == "own\n"


def test_modules_are_looked_for_where_python_looks_above_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's folder is no package, and what it imports lies in another beside it."""
    written(tmp_path, {"parts/gate.py": "WHO = 'carried'\n", "scripts/model.py": ""})
    monkeypatch.chdir(tmp_path)
    made = with_bundled_modules("from parts.gate import WHO\nprint(WHO)\n", tmp_path / "scripts" / "model.py")
    assert run(made, tmp_path / "elsewhere") == "carried\n"
