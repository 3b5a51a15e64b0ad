"""The index of the kernel library in a folder of Python files: of every definition its text, the others that it needs, and its imports."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bottega.compiler.library.torch_calls import torch_calls_source
from bottega.compiler.source.names import imported
from bottega.compiler.source.placement import needs_at_once
from bottega.compiler.source.statements import binds, reads
from bottega.core.errors import BottegaError

FOR_KERNELS = ("index_in", "index_in_part")
"""Functions that kernels of an answer may call; all others are for `forward`."""
TRITON = Path(__file__).parent / "triton"
PACKAGE = "bottega.compiler.library."
"""Imports from this package are how one file of the library uses names of another; they are not inlined."""
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


class KernelLibraryError(BottegaError):
    """A file of the kernel library cannot be inlined as it is written."""


@dataclass(frozen=True)
class Import:
    name: str
    text: str
    stands: str
    """What the name stands for, however it is imported."""

    def renamed(self, name: str) -> str:
        return f"{self.text.split(' as ')[0]} as {name}"


@dataclass(frozen=True)
class LibraryFunction:
    name: str
    text: str
    look: str
    """Its syntax without docstrings, to tell whether another text is the same."""
    imports: tuple[Import, ...]
    needs: frozenset[str]
    """Other definitions of the library."""
    at_once: frozenset[str]
    """Those of them that must be defined before it is."""
    is_offered: bool
    """Whether an answer may call it: it stands for torch's of its name, to which it hands what it does not do. Others come along."""


@dataclass(frozen=True)
class KernelLibrary:
    functions: dict[str, LibraryFunction]

    def closure(self, names: Iterable[str]) -> tuple[LibraryFunction, ...]:
        """Returns these functions and all that they need, each after what it needs."""
        near: dict[str, LibraryFunction] = {}
        pending = [(name, False) for name in sorted(names, reverse=True)]
        entered: set[str] = set()
        while pending:
            name, done = pending.pop()
            if done:
                near[name] = self.functions[name]
            elif name not in entered:
                entered.add(name)
                pending += [(name, True), *((need, False) for need in sorted(self.functions[name].needs, reverse=True))]
        ordered: dict[str, LibraryFunction] = {}
        for name in near:  # functions that call each other in a ring: what is needed at once comes first all the same
            self._place(name, ordered, frozenset())
        return tuple(ordered.values())

    def _place(self, name: str, ordered: dict[str, LibraryFunction], above: frozenset[str]) -> None:
        for need in sorted(self.functions[name].at_once - above - ordered.keys()):
            self._place(need, ordered, above | {name})
        ordered.setdefault(name, self.functions[name])

    def source_of(self, names: Iterable[str]) -> str:
        """Returns a file of these functions and what they need."""
        functions = self.closure(names)
        imports = dict.fromkeys(one.text for function in functions for one in function.imports)
        return "\n\n\n".join(["\n".join(imports), *(function.text for function in functions)]).lstrip("\n") + "\n"

    def own(self) -> list[str]:
        """Those of the offered functions that our kernels compute; the others are torch's under the call graph's names."""
        return list(self._own)

    @functools.cached_property
    def _own(self) -> tuple[str, ...]:
        """Every prompt asks for them."""
        return tuple(name for name in self.offered() if self.is_own(name))

    def is_own(self, name: str) -> bool:
        return self.functions[name].is_offered and any("@triton.jit" in function.text for function in self.closure([name]))

    def offered(self) -> list[str]:
        return sorted(function.name for function in self.functions.values() if function.is_offered)


@functools.cache
def kernel_library(folder: Path = TRITON) -> KernelLibrary:
    """Read once. Raises `KernelLibraryError` for a file that no answer could be given."""
    functions: dict[str, LibraryFunction] = {}
    borrowed: dict[str, str] = {}
    for name, source in _files(folder):
        for function in _functions_of(name, source, borrowed):
            if function.name in functions:
                raise KernelLibraryError(f"{name}: {function.name} is defined twice in the kernel library; rename one")
            functions[function.name] = function
    for name, place in borrowed.items():
        if name not in functions:
            raise KernelLibraryError(f"{place}: imports {name}, which the kernel library does not define")
    for function in functions.values():
        clash = {one.name for one in function.imports} & functions.keys()
        if clash:
            raise KernelLibraryError(f"{function.name}: imports {min(clash)}, which is also a function of the library")
    return KernelLibrary(functions)


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for path in sorted(folder.glob("*.py")):
        try:
            yield path.name, path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise KernelLibraryError(f"{path.name}: cannot be read as Python: {error}") from None
    if folder == TRITON:
        yield "torch_calls", torch_calls_source()


def _functions_of(file: str, source: str, borrowed: dict[str, str]) -> list[LibraryFunction]:
    try:
        body = ast.parse(source).body
    except (ValueError, SyntaxError) as error:
        raise KernelLibraryError(f"{file}: cannot be read as Python: {error}") from None
    imports: dict[str, Import] = {}
    others: set[str] = set()
    definitions: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            others |= {_plain(alias, file) for alias in node.names}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                imports |= {one.name: one for one in _imports_of(node, file)}
        elif len(binds(node)) == 1:
            definitions.append(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise KernelLibraryError(f"{file}:{node.lineno}: holds more than imports, functions, classes and constants")
    borrowed |= dict.fromkeys(others, file)
    known = others | {binds(node)[0] for node in definitions}
    lines = source.splitlines()
    return [_function(node, lines, imports, known) for node in definitions]


def _function(node: ast.stmt, lines: list[str], imports: dict[str, Import], known: set[str]) -> LibraryFunction:
    (name,) = binds(node)
    text = text_of(node, lines)
    read, (at_once, _) = reads(node), needs_at_once(node)
    return LibraryFunction(
        name,
        text,
        look(node),
        tuple(one for one in imports.values() if one.name in read),
        frozenset(read & known - {name}),
        frozenset(at_once & known - {name}),
        any(isinstance(inner, ast.Attribute) and inner.attr == name for inner in ast.walk(node)),
    )


def text_of(node: ast.stmt, lines: Sequence[str]) -> str:
    """Its lines, decorators among them."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    return "\n".join(lines[(decorators[0] if decorators else node).lineno - 1 : node.end_lineno])


def look(node: ast.stmt) -> str:
    """A definition without docstrings and comments."""
    texts: dict[int, list[ast.stmt]] = {}
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(inner, clean=False) is not None
        ):
            texts[id(inner)] = inner.body
            inner.body = inner.body[1:] or [ast.Pass()]
    found = ast.dump(node)
    for inner in ast.walk(node):
        if id(inner) in texts:
            inner.body = texts[id(inner)]  # type: ignore[attr-defined]
    return found


def _imports_of(node: ast.Import | ast.ImportFrom, file: str) -> Iterable[Import]:
    for alias in node.names:
        one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
        ((name, stands),) = imported(one).items()
        if (
            name == "*"
            or (isinstance(one, ast.ImportFrom) and one.level)
            or (name == stands and "." in alias.name and not alias.asname)
        ):
            raise KernelLibraryError(f"{file}:{node.lineno}: {ast.unparse(one)} cannot be moved into another file")
        yield Import(name, ast.unparse(one), stands)


def _plain(alias: ast.alias, file: str) -> str:
    if alias.asname or alias.name == "*":
        raise KernelLibraryError(f"{file}: imports {alias.name} from the library under another name; import it by its own")
    return alias.name
