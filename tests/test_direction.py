"""Packages and who may import whom: an arrow never runs back, and no files import each other in a circle."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import bottega

TIERS = (
    {"core", "runtime"},
    {"languages", "sandbox"},
    {"tasks", "judge", "compiler", "skills", "backbone"},
    {"agents"},
    {"episodes"},
    {"data", "train", "lineage", "bench"},
    {"cluster", "service"},
    {"app"},
)
BELOW = {package: set().union(*TIERS[:tier]) for tier, packages in enumerate(TIERS) for package in packages}

SOURCE = Path(bottega.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = frozenset(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__") for path in FILES)


@functools.cache
def imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Anywhere in it."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_packages(path: Path) -> set[str]:
    """Packages that a file imports. A relative import stays in its own package."""
    packages: set[str] = set()
    for node in imports_of(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.level == 0 and node.module:
            names = (
                [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                if node.module == "bottega"
                else [node.module]
            )
        packages |= {name.split(".")[1] for name in names if name.startswith("bottega.") and not name.endswith(".__version__")}
    return packages


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    """Files that a file imports; a package stands for itself, not for what lies in it."""
    own = module_name(path)
    found: set[str] = set()
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            above = (
                own.split(".")[: -node.level or None]
                if path.name != "__init__.py"
                else own.split(".")[: 1 - node.level or None]
            )
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module or ""
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}
    return (found & MODULES) - {own, "bottega"}


def test_an_arrow_never_runs_back() -> None:
    wrong = []
    for path in FILES:
        relative = path.relative_to(SOURCE)
        if len(relative.parts) == 1 or relative.parts[:2] == ("app", "demo"):
            continue
        package = relative.parts[0]
        if against := imported_packages(path) - BELOW[package] - {package}:
            wrong.append(f"{relative} imports {sorted(against)}")
    assert not wrong, "\n".join(wrong)


def test_no_files_import_each_other_in_a_circle() -> None:
    needs = {module_name(path): imported_modules(path) for path in FILES}
    settled: set[str] = set()
    while ready := [name for name, others in needs.items() if name not in settled and not (others & needs.keys()) - settled]:
        settled |= set(ready)
    assert not needs.keys() - settled, f"in or above a circle: {sorted(needs.keys() - settled)}"


def test_every_package_has_its_place() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert {"core", "runtime", "tasks", "judge", "app"} <= folders <= set(BELOW)


def test_the_judges_own_process_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, bottega.judge.judge, bottega.app.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
