"""Any Python file with an nn.Module in it, converted to a task of KernelBench's format without running it: missing functions are appended as text.

Nothing is run here. Whether the module imports, builds and answers is found in the judge's sandbox; here only what the text cannot
mean is refused, with what to say instead.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.core.task import REQUIRED_NAMES, Task, parsed, top_level_names
from bottega.tasks.files import level_of_folder, read_source
from bottega.tasks.load import load_task
from bottega.tasks.tags import tags_of

MARK = "# ---- Added by Bottega: the module in KernelBench's format. ----"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Wanted:
    """What to optimise in a file, as the user says it. All empty: the file is in KernelBench's format, or there is only one answer."""

    class_name: str | None = None
    inputs: str | None = None
    """A function of the file, or an expression: the arguments of one call, as they would stand between its parentheses."""
    init: str | None = None
    """The same for the constructor."""

    def to_json(self) -> dict[str, str | None]:
        return asdict(self)


@dataclass(frozen=True)
class ModuleTask:
    """A module to optimise: the file as it was given, and the task that it makes."""

    original: str
    task: Task
    class_name: str
    wanted: Wanted = Wanted()

    @property
    def title(self) -> str:
        """What people call it: every class of KernelBench's is a Model."""
        return self.task.name if self.class_name == "Model" else self.class_name


def open_module(reference: str, wanted: Wanted, *, size: str = "cpu") -> ModuleTask:
    """A Python file, or any reference to one task (`builtin:NAME`, `kernelbench:level1/23`)."""
    path = Path(reference)
    if path.suffix != ".py" and not path.is_file():
        task = load_task(reference, size=size)
        return replace(module_task_of(task.source, wanted, task.name, task.label, task.level), task=_asked(task, wanted))
    if not path.exists():
        raise UsageError(
            f"{reference}: no such file; name a Python file with an nn.Module, or a task such as builtin:star_relu"
        )
    return module_task_of(read_source(path), wanted, path.stem, str(path), level_of_folder(path.parent))


def module_task_of(text: str, wanted: Wanted, name: str, origin: str, level: int | None = None) -> ModuleTask:
    """The same text and wishes always make the same task."""
    tree = parsed(text, origin)
    class_name, source = _complete(tree, text, wanted, origin)
    task = Task(source, name, origin, level).validate()
    return ModuleTask(text, replace(task, tags=tags_of(source, level)), class_name, wanted)


def module_classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Classes at the top of a file that derive from nn.Module, as far as the text shows: through torch.nn or through each other."""
    from_torch = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.nn")
        for alias in node.names
    }
    found: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_is_module(base, from_torch | found.keys()) for base in node.bases):
            found[node.name] = node
    return list(found.values())


def _is_module(base: ast.expr, known: set[str]) -> bool:
    if isinstance(base, ast.Subscript):
        base = base.value
    name = ast.unparse(base)
    return name in known or name.endswith("Module") or name.startswith(("nn.", "torch.nn."))


def _complete(tree: ast.Module, text: str, wanted: Wanted, origin: str) -> tuple[str, str]:
    """The class's name, and the source with what KernelBench's format asks for and the file lacks."""
    names = top_level_names(tree)
    if wanted == Wanted() and all(name in names for name in REQUIRED_NAMES):
        return "Model", text
    chosen = _chosen_class(tree, names, wanted.class_name, origin)
    inputs = _arguments(tree, names, wanted.inputs, "get_inputs", chosen, "forward", origin)
    initial = _arguments(tree, names, wanted.init, "get_init_inputs", chosen, "__init__", origin)
    added = ["import torch"] if "torch" not in names else []
    added += [f"Model = {chosen}"] if chosen != "Model" else []
    for name, value in (("get_inputs", inputs), ("get_init_inputs", initial)):
        added += [f"\n\ndef {name}():\n    return {value}"] if value is not None else []
    if not added:
        return chosen, text
    return chosen, text.rstrip("\n") + f"\n\n\n{MARK}\n" + "\n".join(added).replace("\n\n\n\n", "\n\n\n") + "\n"


def _chosen_class(tree: ast.Module, names: set[str], asked: str | None, origin: str) -> str:
    found = [node.name for node in module_classes(tree)]
    listed = ", ".join(found) or "none"
    if asked is not None:
        if asked not in names:
            raise UsageError(f"{origin}: has no class {asked!r} at its top level; nn.Module classes there: {listed}")
        return asked
    if "Model" in found:
        return "Model"
    if len(found) != 1:
        what = "several nn.Module classes" if found else "no nn.Module class that its text shows"
        raise UsageError(f"{origin}: has {what}; say which with --class NAME (found: {listed})")
    return found[0]


def _arguments(
    tree: ast.Module, names: set[str], asked: str | None, default: str, class_name: str, method: str, origin: str
) -> str | None:
    """The expression that a function of the format returns; None where the file has that function and it is to be used."""
    option = "--inputs" if method == "forward" else "--init"
    signature = _method(tree, class_name, method)
    if asked is None:
        if default in names:
            return None
        if method == "__init__":
            needed = _needed(signature)
            if needed:
                raise UsageError(
                    f'{origin}: {class_name} needs {", ".join(needed)} to be built; give them with {option} "{_example(needed)}"'
                )
            return "[]"
        raise UsageError(
            f"{origin}: say how to call {class_name}{_shown(signature)}: {option} FUNCTION (one of the file that returns the inputs) "
            f'or {option} "torch.randn(8, 512)"'
        )
    asked = asked.strip()
    if asked == default and default in names:
        return None
    if asked.isidentifier() and any(isinstance(node, Function) and node.name == asked for node in tree.body):
        return f"{asked}()"
    return "[" + ", ".join(_positional(asked, default, signature, option)) + "]"


def _positional(asked: str, default: str, signature: Function | None, option: str) -> list[str]:
    """An expression as a list of positional arguments; keywords find their places in the signature, with its defaults between."""
    try:
        call = ast.parse(f"_({asked}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"{option} {asked!r}: neither a function of the file nor an expression ({reason})") from None
    if not isinstance(call, ast.Call):
        raise UsageError(f"{option} {asked!r}: one expression, please")
    if any(isinstance(node, ast.Name) and node.id == default for node in ast.walk(call)):
        raise UsageError(f"{option} {asked!r}: name {default} alone, or write a function of another name")
    arguments = list(call.args)
    if len(arguments) == 1 and not call.keywords and isinstance(arguments[0], ast.List | ast.Tuple):
        arguments = list(arguments[0].elts)  # as get_inputs() would return them
    given = [ast.unparse(argument) for argument in arguments]
    if not call.keywords:
        return given
    places = [argument.arg for argument in (*signature.args.posonlyargs, *signature.args.args)][1:] if signature else []
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    unknown = [str(name or "**") for name in keywords if name not in places[len(given) :]]
    if unknown:
        raise UsageError(
            f"{option} {asked!r}: {', '.join(unknown)} has no place of its own in {_shown(signature) or 'the call'}"
        )
    defaults = _defaults(signature) if signature else {}
    last = max(places.index(str(name)) for name in keywords)
    for name in places[len(given) : last + 1]:
        value = keywords.get(name, defaults.get(name))
        if value is None:
            raise UsageError(f"{option} {asked!r}: lacks {name}")
        given.append(value)
    return given


def _method(tree: ast.Module, class_name: str, method: str) -> Function | None:
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


def _needed(signature: Function | None) -> list[str]:
    """Arguments without a default; nothing where the text shows no signature."""
    if signature is None:
        return []
    places = [argument.arg for argument in (*signature.args.posonlyargs, *signature.args.args)][1:]
    with_default = _defaults(signature).keys()
    keyword_only = [a.arg for a, d in zip(signature.args.kwonlyargs, signature.args.kw_defaults) if d is None]
    return [name for name in places if name not in with_default] + keyword_only


def _defaults(signature: Function) -> dict[str, str]:
    places = [argument.arg for argument in (*signature.args.posonlyargs, *signature.args.args)]
    values = signature.args.defaults
    return {name: ast.unparse(value) for name, value in zip(places[len(places) - len(values) :], values)}


def _shown(signature: Function | None) -> str:
    return f".{signature.name}({ast.unparse(signature.args)})" if signature else ""


def _example(names: Sequence[str]) -> str:
    return ", ".join(f"{name}=…" for name in names)


def _asked(task: Task, wanted: Wanted) -> Task:
    if wanted != Wanted():
        raise UsageError(f"{task.label}: is a task already; --class, --inputs and --init are for Python files of your own")
    return task
