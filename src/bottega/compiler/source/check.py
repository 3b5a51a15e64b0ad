"""Static check of a candidate's file: mistakes that are certain to fail, found without running it, so that no verdict is spent on them.

What is not certain is not reported: the judge decides on everything that passes here.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from symtable import SymbolTable, symtable

from bottega.compiler.source.finding import Finding
from bottega.compiler.source.names import BUILTIN, names_of
from bottega.compiler.source.text import LONGEST

RULES = ("syntax", "undefined_name")
"""Names of everything that can be found."""
_BINDS_UNSEEN = frozenset(("exec", "globals", "vars", "setattr", "__builtins__", "builtins"))
"""Where a file has one of these, names may come from where nobody sees them."""
_CATCHES_MISSING = frozenset(("NameError", "Exception", "BaseException", "UnboundLocalError"))


def check(source: str) -> tuple[Finding, ...]:
    """The findings in a linked candidate's file, all of them certain; none where nothing is certain."""
    if len(source) > LONGEST:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in C++ strings that are not raw
            tree = ast.parse(source)
            compile(source, "answer", "exec", dont_inherit=True)  # some files parse and still are no Python
        return _findings("undefined_name", _undefined(source, tree))
    except (SyntaxError, ValueError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return _findings("syntax", [f"the file is no Python: {getattr(error, 'msg', error)}{where}"])
    except (RecursionError, MemoryError):  # nested deeper than this can look: nothing is certain
        return ()


def _findings(rule: str, messages: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(Finding(rule, message) for message in dict.fromkeys(messages))


def _undefined(source: str, tree: ast.Module) -> Iterator[str]:
    names = names_of(source, tree.body)
    missing = names.read - names.taken - BUILTIN - _expected_to_fail(tree)
    if names.stars or names.read & _BINDS_UNSEEN or _BINDS_UNSEEN & names.imports.keys():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scope in _scopes(symtable(source, "answer", "exec"), "the file"):
            name, table = scope
            at_top = table.get_type() == "module"
            for symbol in table.get_symbols():
                read = symbol.is_referenced() and (at_top or symbol.is_global())
                if read and symbol.get_name() in missing and not symbol.get_name().startswith("__"):
                    yield f"{name} reads {symbol.get_name()}, which nothing defines"


def _scopes(table: SymbolTable, name: str) -> Iterator[tuple[str, SymbolTable]]:
    """Each scope by the function or class that it belongs to; lambdas and comprehensions by the one around them."""
    yield name, table
    for child in table.get_children():
        anonymous = not child.get_name().isidentifier() or child.get_name() in (
            "lambda",
            "listcomp",
            "setcomp",
            "dictcomp",
            "genexpr",
        )
        yield from _scopes(child, name if anonymous else child.get_name())


def _expected_to_fail(tree: ast.Module) -> set[str]:
    """Names that an exception handler expects to be missing, and names in annotations, which may never be evaluated."""
    found: set[str] = set()
    for node in ast.walk(tree):
        guarded: list[ast.AST] = []
        if isinstance(node, ast.Try | ast.TryStar) and any(map(_catches_missing, node.handlers)):
            guarded += node.body
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            guarded.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            guarded.append(node.returns)
        found |= {name.id for part in guarded for name in ast.walk(part) if isinstance(name, ast.Name)}
    return found


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else None
    return caught is None or bool(caught & _CATCHES_MISSING)
