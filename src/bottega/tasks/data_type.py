"""A task in another data type, by its text: weights and inputs of float32 are cast, as `model.to(torch.bfloat16)` and its caller would do it.

`Model` becomes a class below the one that was meant, so that parameters keep their names; the one that was meant is renamed where it had that
name itself, and so is its `get_inputs`.
"""

from __future__ import annotations

import ast

from bottega.core.task import parsed
from bottega.tasks.signature import MARK

MODEL, INPUTS = "Model", "get_inputs"
RENAMED = {MODEL: "AsWritten", INPUTS: "inputs_as_written"}
CAST_INPUTS = '''

def in_data_type(value):
    """What float32 it holds, in the data type that was asked for."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.{dtype}) if value.dtype == torch.float32 else value
    if isinstance(value, dict):
        return {{key: in_data_type(each) for key, each in value.items()}}
    return type(value)(map(in_data_type, value)) if type(value) in (list, tuple) else value


def get_inputs():
    return in_data_type({inputs}())
'''
DERIVED = """

class Model({base}):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.to(torch.{dtype})
"""
CALLED = """

Model.__name__ = {name!r}
"""
"""What is delivered looks at the class of the user's module by its name."""
BUILT = """

def built(*arguments, **options):
    return {base}(*arguments, **options).to(torch.{dtype})


Model = built
"""


def with_data_type(source: str, dtype: str, label: str) -> str:
    """The source of a complete task."""
    tree = parsed(source, label)
    alias = next((node for node in tree.body if _is_alias(node)), None)
    names = dict(RENAMED)
    if alias is not None:
        names[MODEL] = ast.unparse(alias.value)  # type: ignore[attr-defined]
        source = _without(source, alias)
        tree = parsed(source, label)
    source = _renamed(source, tree, {INPUTS: names[INPUTS]} if alias is not None else names)
    classes = {node.name for node in parsed(source, label).body if isinstance(node, ast.ClassDef)}
    model = (DERIVED if names[MODEL] in classes else BUILT).format(base=names[MODEL], dtype=dtype)
    model += CALLED.format(name=names[MODEL]) if alias is not None and names[MODEL] in classes else ""
    head = "" if MARK in source else f"\n\n\n{MARK}\nimport torch\n"
    return f"{source.rstrip()}{head}\n{model}{CAST_INPUTS.format(dtype=dtype, inputs=names[INPUTS])}"


def _is_alias(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [MODEL]


def _without(source: str, node: ast.stmt) -> str:
    lines = source.splitlines(keepends=True)
    return "".join((*lines[: node.lineno - 1], *lines[node.end_lineno :]))


def _renamed(source: str, tree: ast.Module, names: dict[str, str]) -> str:
    """At the places of its definition and of its uses; everything else stays as it is, comments too."""
    places: list[tuple[int, int, str]] = []
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            places.append((node.lineno, node.col_offset, node.id))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node in tree.body and node.name in names:
            line = lines[node.lineno - 1].encode()
            places.append((node.lineno, line.index(node.name.encode(), node.col_offset), node.name))
    for row, column, name in sorted(places, reverse=True):
        line = lines[row - 1].encode()
        lines[row - 1] = (line[:column] + names[name].encode() + line[column + len(name) :]).decode()
    return "".join(lines)
