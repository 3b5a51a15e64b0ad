"""Any Python file with an nn.Module in it, converted to a task of KernelBench's format without running it: missing functions are appended as text.

Nothing is run here. Whether the module imports, builds and answers is found in the judge's sandbox; here only what the text cannot
mean is refused, with what to say instead.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.core.task import REQUIRED_NAMES, Task, parsed, top_level_names
from bottega.tasks.bundled_modules import with_bundled_modules
from bottega.tasks.data_type import with_data_type
from bottega.tasks.files import level_of_folder, read_source
from bottega.tasks.load import load_task
from bottega.tasks.signature import MARK, Function, defaults_of, method_of, needed_of, places_of
from bottega.tasks.tags import tags_of


@dataclass(frozen=True)
class Wanted:
    """What to optimise in a file, as the user says it. All empty: the file is in KernelBench's format, or there is only one answer."""

    class_name: str | None = None
    inputs: str | None = None
    """A function of the file, or an expression: the arguments of one call, as they would stand between its parentheses."""
    init: str | None = None
    """The same for the constructor."""
    function: str | None = None
    """A function of the file, in place of a class."""
    dtype: str | None = None
    """Of weights and inputs that are float32 as the file has them."""

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
        made = module_task_of(task.source, _asked(task, wanted), task.name, task.label, task.level)
        return made if wanted.dtype else replace(made, task=task)
    if not path.exists():
        raise UsageError(
            f"{reference}: no such file; name a Python file with an nn.Module, or a task such as builtin:star_relu"
        )
    text = read_source(path)
    parsed(text, str(path))
    return module_task_of(with_bundled_modules(text, path), wanted, path.stem, str(path), level_of_folder(path.parent))


def module_task_of(text: str, wanted: Wanted, name: str, origin: str, level: int | None = None) -> ModuleTask:
    """The same text and wishes always make the same task."""
    tree = parsed(text, origin)
    class_name, source = _complete(tree, text, replace(wanted, dtype=None), origin)
    source = with_data_type(source, wanted.dtype, origin) if wanted.dtype else source
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
    if wanted.function is not None:
        return wanted.function, text.rstrip("\n") + f"\n\n\n{MARK}\n{_of_function(tree, names, wanted, origin)}"
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


def _of_function(tree: ast.Module, names: set[str], wanted: Wanted, origin: str) -> str:
    """A module that calls a function of the file, as its constructor and forward would be written by hand."""
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    function = found.get(wanted.function or "")
    if wanted.class_name is not None or wanted.init is not None:
        raise UsageError("function=NAME stands in place of --class and --init: a function is not built")
    if function is None:
        raise UsageError(f"{origin}: defines no function {wanted.function!r}; functions there: {', '.join(found) or 'none'}")
    if "Model" in names:
        raise UsageError(f"{origin}: has a Model already; put the function into a file of its own")
    places = copy.deepcopy(function.args)
    for argument in (*places.posonlyargs, *places.args, *places.kwonlyargs):
        argument.annotation = None
    given = [argument.arg for argument in (*places.posonlyargs, *places.args)]
    given += [f"*{places.vararg.arg}"] if places.vararg else []
    given += [f"{argument.arg}={argument.arg}" for argument in places.kwonlyargs]
    given += [f"**{places.kwarg.arg}"] if places.kwarg else []
    inputs = _arguments(tree, names, wanted.inputs, "get_inputs", function.name, "forward", origin, function)
    lines = ["import torch", "\n", "class Model(torch.nn.Module):", f"    def forward(self, {ast.unparse(places)}):"]
    lines += [f"        return {function.name}({', '.join(given)})"]
    lines += ["\n", "def get_inputs():", f"    return {inputs}"] if inputs is not None else []
    lines += ["\n", "def get_init_inputs():", "    return []"]
    return "\n".join(lines) + "\n"


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
        if found:
            raise UsageError(f"{origin}: has several nn.Module classes; say which with --class NAME (found: {listed})")
        functions = [node.name for node in tree.body if isinstance(node, Function) and not node.name.startswith("get_")]
        those = f", or function=NAME for a function ({', '.join(functions[:4])})" if functions else ""
        raise UsageError(f"{origin}: has no nn.Module class that its text shows; say which with --class NAME{those}")
    return found[0]


def _arguments(
    tree: ast.Module,
    names: set[str],
    asked: str | None,
    default: str,
    class_name: str,
    method: str,
    origin: str,
    function: Function | None = None,
) -> str | None:
    """The expression that a function of the format returns; None where the file has that function and it is to be used."""
    option = "--inputs" if method == "forward" else "--init"
    signature = function or method_of(tree, class_name, method)
    if asked is None:
        if default in names:
            return None
        if method == "__init__":
            needed = needed_of(signature)
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
    return _written(asked, default, signature, places_of(signature)[0 if function else 1 :], option)


def _is_dict(argument: ast.expr) -> bool:
    """A dictionary in braces, or as `dict(x=…)`."""
    named = isinstance(argument, ast.Call) and isinstance(argument.func, ast.Name) and argument.func.id == "dict"
    return isinstance(argument, ast.Dict) or (named and isinstance(argument, ast.Call) and not argument.args)


def _written(asked: str, default: str, signature: Function | None, places: Sequence[str], option: str) -> str:
    """An expression as `get_inputs()` returns it: a list, with keywords in the places of the signature and its defaults between. Where a keyword
    has no such place, a pair of list and dictionary."""
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
    if len(arguments) == 1 and not call.keywords and _is_dict(arguments[0]):
        return ast.unparse(arguments[0])  # arguments by name, or the one argument, as get_inputs() would return it
    if len(arguments) == 1 and not call.keywords and isinstance(arguments[0], ast.List | ast.Tuple):
        arguments = list(arguments[0].elts)
    given = [ast.unparse(argument) for argument in arguments]
    keywords = {str(keyword.arg or "**"): ast.unparse(keyword.value) for keyword in call.keywords}
    if "**" in keywords:
        raise UsageError(f"{option} {asked!r}: write out what stands behind **")
    free = places[len(given) :]
    if signature is not None:
        by_name = {argument.arg for argument in signature.args.kwonlyargs}
        unknown = [name for name in keywords if name not in free and (name in places or name not in by_name)]
        if unknown and (signature.args.kwarg is None or set(unknown) & set(places)):
            raise UsageError(f"{option} {asked!r}: {', '.join(unknown)} has no place of its own in {_shown(signature)}")
    defaults = defaults_of(signature) if signature else {}
    used = free[: max((free.index(name) + 1 for name in keywords if name in free), default=0)]
    lacking = [name for name in used if name not in keywords and name not in defaults]
    if lacking:
        raise UsageError(f"{option} {asked!r}: lacks {', '.join(lacking)}")
    written = f"[{', '.join([*given, *(keywords.pop(name, defaults.get(name, '')) for name in used)])}]"
    if not keywords:
        return written
    return f"[{written}, {{{', '.join(f'{name!r}: {value}' for name, value in keywords.items())}}}]"


def _shown(signature: Function | None) -> str:
    return f".{signature.name}({ast.unparse(signature.args)})" if signature else ""


def _example(names: Sequence[str]) -> str:
    return ", ".join(f"{name}=…" for name in names)


def _asked(task: Task, wanted: Wanted) -> Wanted:
    if replace(wanted, dtype=None) != Wanted():
        raise UsageError(
            f"{task.label}: is a task already; --class, --inputs, --init and function= are for Python files of your own"
        )
    return wanted
