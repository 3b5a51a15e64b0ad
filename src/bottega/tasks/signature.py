"""What the text of a task file shows of a method's arguments, and the one function of the format that a file may leave out."""

from __future__ import annotations

import ast

from bottega.core.task import REQUIRED_NAMES, parsed, top_level_names

MARK = "# ---- Added by Bottega: the module in KernelBench's format. ----"
INIT_INPUTS = "get_init_inputs"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def with_init_inputs(source: str, label: str) -> str:
    """The text with a `get_init_inputs()` that gives nothing, where it is all that is missing and `Model` is built of nothing."""
    tree = parsed(source, label)
    missing = set(REQUIRED_NAMES) - top_level_names(tree)
    if missing != {INIT_INPUTS} or needed_of(method_of(tree, "Model", "__init__")):
        return source
    return f"{source.rstrip()}\n\n\n{MARK}\ndef {INIT_INPUTS}():\n    return []\n"


def method_of(tree: ast.Module, class_name: str, method: str) -> Function | None:
    """Where the text shows it: in the class, or in one of its bases that the file defines."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    pending, seen = [class_name], set[str]()
    while pending:
        name = pending.pop(0)
        if name in seen or name not in classes:
            continue
        seen.add(name)
        for node in classes[name].body:
            if isinstance(node, Function) and node.name == method:
                return node
        pending += [ast.unparse(base) for base in classes[name].bases]
    return None


def needed_of(signature: Function | None) -> list[str]:
    """Arguments without a default; nothing where the text shows no signature."""
    if signature is None:
        return []
    places = places_of(signature)[1:]
    with_default = defaults_of(signature).keys()
    keyword_only = [a.arg for a, d in zip(signature.args.kwonlyargs, signature.args.kw_defaults) if d is None]
    return [name for name in places if name not in with_default] + keyword_only


def places_of(signature: Function | None) -> list[str]:
    return [argument.arg for argument in (*signature.args.posonlyargs, *signature.args.args)] if signature else []


def defaults_of(signature: Function) -> dict[str, str]:
    places = places_of(signature)
    values = signature.args.defaults
    return {name: ast.unparse(value) for name, value in zip(places[len(places) - len(values) :], values)}
