"""Static check of a candidate's file: mistakes that are certain to fail, found without running it, so that no verdict is spent on them.

What is not certain is not reported: the judge decides on everything that passes here.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterable, Iterator

from bottega.compiler.library.index import kernel_library, text_of
from bottega.compiler.source.assignment_order import read_too_early
from bottega.compiler.source.finding import Finding
from bottega.compiler.source.names import BUILTIN
from bottega.compiler.source.scopes import FUNCTIONS, ScopeVisitor
from bottega.compiler.source.signatures import Function, calls_that_do_not_fit, is_kernel, methods_that_differ
from bottega.compiler.source.text import LONGEST, model_class, parsed
from bottega.core.errors import TaskError
from bottega.core.task import normalised

RULES = ("syntax", "undefined_name", "read_before_assignment", "call_signature", "method_signature", "unknown_attribute")
"""Names of everything that can be found."""
_MODULES = ("nn.Module", "torch.nn.Module", "Module")
_GIVES_ATTRIBUTES_UNSEEN = ("setattr", "__setattr__", "__getattr__", "__getattribute__", "__dict__", "vars", "exec")
_WORD = re.compile(r"\w+")


def check(source: str, task_source: str, language: str) -> tuple[Finding, ...]:
    """The findings in a linked candidate's file, all of them certain; none where nothing is certain."""
    try:
        tree = _compiled(source)
    except (SyntaxError, ValueError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return _findings("syntax", [f"the file is no Python: {getattr(error, 'msg', error)}{where}"])
    except (RecursionError, MemoryError):
        return ()
    if tree is None:
        return ()
    _empty_library_functions(tree, source)
    try:
        return _found(tree, task_source, language)
    except RecursionError:  # nested deeper than this can look: nothing is certain
        return ()


def _findings(rule: str, messages: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(Finding(rule, message) for message in dict.fromkeys(messages))


def _empty_library_functions(tree: ast.Module, source: str) -> None:
    """Drops the bodies of unchanged library functions: they are right, and most of the file."""
    lines, functions = source.split("\n"), kernel_library().functions
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in functions and functions[node.name].text == text_of(node, lines):
            node.body = [ast.Pass()]


def _found(tree: ast.Module, task_source: str, language: str) -> tuple[Finding, ...]:
    scopes = ScopeVisitor(tree)
    unknown = [f"{read.scope.name} reads {read.name}, which nothing defines" for read in scopes.unknown()]
    found = [
        *_findings("undefined_name", unknown),
        *_findings("read_before_assignment", _too_early(tree, scopes)),
        *_findings("call_signature", calls_that_do_not_fit(tree, scopes, language)),
    ]
    model, task_model = model_class(tree), _task_model(task_source)
    if model is not None and task_model is not None:
        found += _findings("method_signature", methods_that_differ(model, task_model))
        found += _findings("unknown_attribute", _unknown_attributes(tree, model, task_model, task_source))
    return tuple(found)


def _compiled(source: str) -> ast.Module | None:
    """Compiled too, since some files parse and still are no Python; None for a file that is too long to be looked at."""
    if len(source) > LONGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in C++ strings that are not raw
        tree = ast.parse(source)
        compile(source, "answer", "exec", dont_inherit=True)
    return tree


def _too_early(tree: ast.Module, scopes: ScopeVisitor) -> Iterator[str]:
    """In kernels and in `forward`. A kernel's compiler looks for a name in the file where the kernel has none yet; Python does not."""
    if scopes.open:
        return
    model = model_class(tree)
    kernels = [one for one in tree.body if isinstance(one, ast.FunctionDef) and is_kernel(one)]
    forward = [one for one in (model.body if model else ()) if isinstance(one, FUNCTIONS) and one.name == "forward"]
    watched: list[tuple[Function, frozenset[str]]] = [(one, BUILTIN | scopes.file.bound) for one in kernels]
    for function, known in [*watched, *((one, frozenset[str]()) for one in forward)]:
        for name in read_too_early(function, known):
            yield f"{function.name} reads {name} before it has a value"


def _unknown_attributes(tree: ast.Module, model: ast.ClassDef, task_model: ast.ClassDef, task_source: str) -> Iterator[str]:
    """`self.NAME` that neither the file, the task nor `nn.Module` knows. Other ancestors may bring what no text shows."""
    bases = [ast.unparse(base) for base in (*model.bases, *task_model.bases)]
    if any(base not in (*_MODULES, "Model") for base in bases) or model.keywords or model.decorator_list:
        return
    words = frozenset(_WORD.findall(task_source))
    here = {name for node in ast.walk(tree) for name in _mentioned(node)}
    if any(name in words or name in here for name in _GIVES_ATTRIBUTES_UNSEEN):
        return
    known = words | _given(tree) | _of_every_module()
    reads = (node for node in ast.walk(model) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    for node in reads:
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr not in known:
            yield f"ModelNew reads self.{node.attr}, which nothing gives it"


def _given(tree: ast.Module) -> set[str]:
    """Attributes that any object of the file gets, and words of its strings, which may name them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(_WORD.findall(node.value))
        elif isinstance(node, ast.ClassDef):
            found.update(name for statement in node.body for name in _members(statement))
    return found


def _members(statement: ast.stmt) -> Iterator[str]:
    """What a statement of a class's body makes its own."""
    for node in ast.walk(statement):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def _mentioned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, FUNCTIONS):
        yield node.name


@functools.cache
def _of_every_module() -> frozenset[str]:
    from torch import nn

    return frozenset(dir(nn.Module()))


@functools.lru_cache(64)
def _task_model(task_source: str) -> ast.ClassDef | None:
    try:
        tree = parsed(normalised(task_source))
    except (TaskError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return model_class(tree, "Model")
