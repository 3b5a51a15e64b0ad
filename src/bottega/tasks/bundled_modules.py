"""Python modules that lie beside a user's file, carried inside of the task's text: a task is one text, wherever it is run.

The text opens with a finder that knows the sources of these modules and is asked last: where the user's own package can be imported, as in the
program that a delivered module is used in, that one is taken.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from bottega.core.errors import TaskError
from bottega.core.task import BESIDE

FINDER = """\
def {name}(sources):
    import importlib.abc
    import importlib.util
    import sys

    class ModulesBeside(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
        def find_spec(self, name, path=None, target=None):
            return importlib.util.spec_from_loader(name, self) if name in sources else None

        def is_package(self, name):
            return sources[name][0]

        def get_source(self, name):
            return sources[name][1]

    sys.meta_path.append(ModulesBeside())


{name}({{  # modules that lay beside this file: whether each is a package, and its source
{sources}
}})
"""


def with_bundled_modules(text: str, path: Path) -> str:
    """The file's text with the modules that it imports from beside it; the text itself where there are none."""
    package, root = _package_of(path)
    roots = _roots(path, root)
    tree = ast.parse(text)
    absolute = _without_relative_imports(text, tree, package)
    sources: dict[str, tuple[bool, str]] = {}
    pending = sorted(_imported(tree, package))
    while pending:
        name = pending.pop()
        found = next((one for each in roots if (one := _find(each, name)) is not None), None)
        if name in sources or found is None:
            continue
        is_package, source = sources[name] = found
        pending += [name.rpartition(".")[0]] if "." in name else []
        try:
            inner = ast.parse(source)
        except SyntaxError as error:
            raise TaskError(f"{path}: imports {name}, which does not parse: line {error.lineno}: {error.msg}") from None
        pending += sorted(_imported(inner, name if is_package else name.rpartition(".")[0]))
    if not sources:
        return absolute
    shown = "\n".join(f"    {name!r}: ({is_package}, {source!r})," for name, (is_package, source) in sorted(sources.items()))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    first = future[-1].end_lineno or 0 if future else 0  # nothing may stand before it but a docstring
    lines = absolute.splitlines(keepends=True)
    return "".join(lines[:first]) + FINDER.format(name=BESIDE, sources=shown) + "\n\n" + "".join(lines[first:])


def _package_of(path: Path) -> tuple[str, Path]:
    """The dotted name of the package that a file is part of, if any, and the folder that its imports begin at."""
    root, parts = path.resolve().parent, list[str]()
    while (root / "__init__.py").is_file() and root.parent != root:
        parts.insert(0, root.name)
        root = root.parent
    return ".".join(parts), root


def _roots(path: Path, root: Path) -> list[Path]:
    """Folders that the file's imports may begin at: its own, and of those that Python looks in now, and the working folder, what lies above it.
    A script in one folder imports from another in this way, with no package around them."""
    above = set(path.resolve().parents)
    looked_in = [Path(each).resolve() for each in ("", *sys.path)]
    return list(dict.fromkeys([root, *(each for each in looked_in if each in above)]))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that an import is from, by its whole name."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([part for part in above if part] + ([node.module] if node.module else []))


def _imported(tree: ast.Module, package: str) -> set[str]:
    """Names of everything that may be a module which the text imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found - {""}


def _find(root: Path, name: str) -> tuple[bool, str] | None:
    place = root.joinpath(*name.split("."))
    for file, is_package in ((place / "__init__.py", True), (place.with_name(place.name + ".py"), False)):
        if file.is_file():
            return is_package, file.read_text(encoding="utf-8")
    return (True, "") if place.is_dir() and any(place.rglob("*.py")) else None


def _without_relative_imports(text: str, tree: ast.Module, package: str) -> str:
    """A task is imported as a module of its own, in no package."""
    lines = text.splitlines(keepends=True)
    relative = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    for node in sorted(relative, key=lambda node: -node.lineno):
        names = ", ".join(alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in node.names)
        last = node.end_lineno or node.lineno
        tail = lines[last - 1].encode()[node.end_col_offset :].decode()
        head = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        lines[node.lineno - 1 : last] = [f"{head}from {_absolute(node, package)} import {names}{tail}"]
    return "".join(lines)
