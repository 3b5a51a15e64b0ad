"""The rooms of the house and who may import whom: an arrow never runs back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bottega

ROOMS = {
    "core": set(),
    "runtime": set(),
    "tasks": {"core", "runtime"},
    "judge": {"core", "runtime"},
    "skills": {"core", "runtime"},
    "backbone": {"core", "runtime"},
}
ROOMS["agents"] = {*ROOMS, "core", "runtime"}
ROOMS["episodes"] = {*ROOMS}
for room in ("learn", "lineage", "bench"):
    ROOMS[room] = {*ROOMS["episodes"], "episodes"}
ROOMS["cluster"] = {*ROOMS["learn"], "learn", "lineage", "bench"}
ROOMS["app"] = {*ROOMS["cluster"], "cluster"}

SOURCE = Path(bottega.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file imports, anywhere in it. A relative import stays in its own room."""
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = (
                [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                if node.module == "bottega"
                else [node.module]
            )
        rooms |= {name.split(".")[1] for name in names if name.startswith("bottega.") and not name.endswith(".__version__")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_an_arrow_never_runs_back(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    if len(relative.parts) == 1 or relative.parts[:2] == ("app", "demo"):
        return
    room = relative.parts[0]
    assert room in ROOMS, f"{room} is no room of the house"
    assert imported_rooms(path) <= ROOMS[room] | {room}


def test_every_room_that_exists_is_looked_at() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert {"core", "runtime", "tasks", "judge", "app"} <= folders <= set(ROOMS)


def test_the_judges_own_process_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, bottega.judge.judge, bottega.app.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
