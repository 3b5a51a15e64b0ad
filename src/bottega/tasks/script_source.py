"""The text that classes of a running script need to exist elsewhere: their own source, the functions, constants and imports that it reads, and
where modules lie that are not installed."""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bottega.core.errors import TaskError

MAIN = "__main__"
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def source_of(names: Iterable[tuple[str, str]]) -> tuple[str, list[str], list[Path]]:
    """For these modules and names in them: text of what the script itself defines, imports, and folders that local modules are imported from."""
    texts: dict[str, str] = {}
    imports: set[str] = set()
    roots: list[Path] = []
    pending = []
    for module, name in names:
        if module == MAIN:
            pending.append(name.split(".")[0])
        elif (root := root_of(module)) is not None:
            imports.add(f"import {module}")
            roots += [root] if root not in roots else []
    script: dict[str, Any] = vars(sys.modules[MAIN])
    while pending:
        name = pending.pop()
        if name in texts or name not in script:
            continue
        value = script[name]
        if isinstance(value, types.ModuleType):
            imports.add(f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}")
            texts[name], root = "", root_of(value.__name__)
            roots += [root] if root is not None and root not in roots else []
        elif isinstance(value, type | types.FunctionType) and value.__module__ == MAIN:
            texts[name] = _text(value)
            pending += _reads(texts[name])
        elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType) and value.__module__:
            texts[name] = ""
            imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
            texts[name] = f"{name} = {value!r}"
    order = sorted((name for name in texts if texts[name]), key=lambda name: _line(script[name]))
    return "\n\n\n".join(texts[name] for name in order), sorted(imports), roots


def root_of(module: str) -> Path | None:
    """The folder that a module is imported from, if it is no installed one."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or str(file).startswith(_INSTALLED):
        return None
    path = Path(file)
    depth = len(module.split(".")) + (path.name == "__init__.py")
    return path.parents[depth - 1].resolve()


def _text(value: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(value)).rstrip()
    except (OSError, TypeError):
        raise TaskError(f"the source of {value.__name__} is not to be had; define it in a file") from None


def _line(value: Any) -> int:
    try:
        return inspect.getsourcelines(value)[1]
    except (OSError, TypeError):
        return -1  # constants come first


def _reads(text: str) -> list[str]:
    return [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
