"""Inlines library functions into an answer's file, and removes them again. What an answer or its task defines is never touched."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Sequence, Set

from bottega.compiler.library.index import FOR_KERNELS, Import, KernelLibrary, LibraryFunction, kernel_library, look, text_of
from bottega.compiler.library.renaming import renamed
from bottega.compiler.source.names import BUILTIN, NameUse, imported, names_of
from bottega.compiler.source.placement import AnswerFile, Insertion
from bottega.compiler.source.statements import binds, reads
from bottega.compiler.source.text import names_are_sound, parsed

_ALONE = "ALONE"
_SUFFIX = "_part"
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_RUNTIME = "bottega.runtime.cpp"


def with_library_functions(source: str, task_names: Set[str], library: KernelLibrary | None = None) -> str:
    """Returns the file with every library function that it reads and nobody binds. Raises as the parser does."""
    tree, library = parsed(source), library or kernel_library()
    if tree is None or not tree.body:
        return source
    names = names_of(source, tree.body)
    wanted = _wanted(names, tree.body, task_names, library)
    functions = library.closure(wanted)
    if not functions:
        return source
    answer = AnswerFile(source, tree.body)
    head = [node for node in tree.body[: answer.head] if isinstance(node, ast.Import | ast.ImportFrom)]
    present = {(name, stands) for node in head for name, stands in imported(node).items()}
    imports = {one.name: one for function in functions for one in function.imports}
    taken = names.taken | task_names | BUILTIN | {function.name for function in functions} | imports.keys()
    others = {
        function.name: _free(function.name, taken)
        for function in functions
        if function.name in names.taken | task_names | BUILTIN
    }
    others |= {one.name: _free(one.name, taken) for one in imports.values() if not _is_same(one, names)}
    pieces = [
        Insertion((one.name,), one.renamed(others[one.name]) if one.name in others else one.text, module=one.stands)
        for one in imports.values()
        if one.name in others or (one.name, one.stands) not in present
    ]
    texts = {_ALONE: f"{_ALONE} = {_is_alone(tree.body, wanted, library)}"}
    pieces += [Insertion((function.name,), renamed(texts.get(function.name, function.text), others)) for function in functions]
    whole = answer.with_pieces(pieces, (), ())
    return whole if names_are_sound(whole) else source


def without_library_functions(source: str, task_names: Set[str], library: KernelLibrary | None = None) -> str:
    """What `with_library_functions` makes the same file of again. Raises as the parser does."""
    tree, library = parsed(source), library or kernel_library()
    if tree is None or not tree.body:
        return source
    names, lines = names_of(source, tree.body), source.split("\n")
    same = {
        name: node
        for node in tree.body
        for name in binds(node)[:1]
        if name in library.functions
        and name not in task_names | BUILTIN
        and _is_library_function(node, lines, library.functions[name])
    }
    whole = {
        name for name in same if all(_stays_the_same(function, same.keys(), names) for function in library.closure([name]))
    }
    rest = _without(source, tree.body, [same[name] for name in whole])
    left = parsed(rest)
    if not whole or left is None or not left.body:
        return source
    wanted = _wanted(names_of(rest, left.body), left.body, task_names, library)
    back = library.closure(wanted)
    if not whole >= {function.name for function in back}:
        return source
    if _ALONE in whole and ast.unparse(same[_ALONE]) != f"{_ALONE} = {_is_alone(left.body, wanted, library)}":
        return source
    short = _without(source, tree.body, [same[function.name] for function in back])
    left = parsed(short)
    if left is None or not left.body:
        return source
    kept = names_of(short, left.body)
    if any(function.name in kept.taken for function in back):
        return source
    carried = {(one.name, one.stands) for function in back for one in function.imports}
    idle = [
        node
        for node in left.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and all(stands in carried and stands[0] not in kept.read for stands in imported(node).items())
    ]
    return _without(short, left.body, idle)


def _wanted(names: NameUse, body: Sequence[ast.stmt], task_names: Set[str], library: KernelLibrary) -> list[str]:
    """A name that may come from an import of everything is nobody's to give, and C++ files are for machines without Triton. A kernel
    cannot call most library functions: a name that only kernels read is a mistake, and stays one."""
    if names.stars or any(_RUNTIME in stands for stands in names.imports.values()):
        return []
    outside = {name for statement in body if not _is_kernel(statement) for name in reads(statement)}
    missing = (names.read & (outside | set(FOR_KERNELS))) - names.taken - task_names - BUILTIN
    return sorted(
        name for name in missing & library.functions.keys() if library.functions[name].is_offered or name in FOR_KERNELS
    )


def _is_alone(body: Sequence[ast.stmt], wanted: Sequence[str], library: KernelLibrary) -> bool:
    """Whether one call of a library function is all that may run a kernel of ours."""
    if any(_is_kernel(node) for statement in body for node in ast.walk(statement)):
        return False
    own = {name for name in wanted if library.is_own(name)}
    once = {id(node.func) for node in _run_once(body) if isinstance(node, ast.Call)}
    found = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id in own]
    return len(found) == 1 and id(found[0]) in once


def _run_once(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """What is in no loop."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _LOOPS):
            pending += ast.iter_child_nodes(node)


def _is_kernel(statement: ast.AST) -> bool:
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return any("jit" in ast.unparse(decorator) for decorator in decorators)


def _is_same(one: Import, names: NameUse) -> bool:
    return one.name not in names.assigned and names.imports.get(one.name, frozenset()) <= {one.stands}


def _is_library_function(node: ast.stmt, lines: Sequence[str], function: LibraryFunction) -> bool:
    if function.name == _ALONE:
        return ast.unparse(node) in (f"{_ALONE} = True", f"{_ALONE} = False")
    return text_of(node, lines) == function.text or look(node) == function.look


def _stays_the_same(function: LibraryFunction, same: Set[str], names: NameUse) -> bool:
    return function.name in same and all(_is_same(one, names) for one in function.imports)


def _free(name: str, taken: Set[str]) -> str:
    while name in taken:
        name += _SUFFIX
    return name


def _without(source: str, body: Sequence[ast.stmt], nodes: Sequence[ast.stmt]) -> str:
    """The file without these statements; as it is where one shares its lines with another."""
    if not nodes:
        return source
    lines = list(io.StringIO(source, newline=""))
    gone: set[int] = set()
    for node in nodes:
        decorators = getattr(node, "decorator_list", None)
        gone |= set(range((decorators[0] if decorators else node).lineno - 1, node.end_lineno or 0))
    for node in body:
        if node not in nodes and not gone.isdisjoint(range(node.lineno - 1, node.end_lineno or 0)):
            return source
    kept: list[str] = []
    blank: list[str] = []  # at a seam the longer of the two gaps stays
    seam = False
    for at, line in enumerate(lines):
        if at in gone:
            seam = True
            kept, gap = _parted(kept)
            blank = max(blank, gap, key=len)
        elif seam and line.strip():
            kept, gap = _parted(kept)
            kept += [*(max(blank, gap, key=len) if kept else []), line]
            blank, seam = [], False
        else:
            kept.append(line)
    return "".join(kept)


def _parted(lines: list[str]) -> tuple[list[str], list[str]]:
    """Lines, and the blank ones at their end."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end], lines[end:]
