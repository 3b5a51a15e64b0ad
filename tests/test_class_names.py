"""One name, one thing: no public class name is defined twice in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import bottega

SOURCE = Path(bottega.__file__).parent
TASKS = ("tasks/suite/", "app/demo/")
"""Folders of task files, each of which defines a `Model` because the task format says so."""


def test_no_public_class_name_is_defined_twice() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(TASKS):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    defined[node.name].append(place)
    assert not {name: places for name, places in defined.items() if len(places) > 1}
