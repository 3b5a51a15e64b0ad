"""Turns a candidate that imports `bottega.runtime` into one file that needs no Bottega.

The text of the runtime's modules is put into the file and loaded as a package under a name of this file's own; the
candidate's import statements are pointed at it, and nothing else of the candidate is touched.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = "bottega.runtime"
_NOT_EXPORTED = ("__init__", "export")

_LOADER = """\
# ---- Bottega's runtime (Apache-2.0), so that this file needs no Bottega. The kernel begins below it. ----
def {name}(texts):
    import sys
    import types

    if "{name}" in sys.modules:
        return
    package = sys.modules["{name}"] = types.ModuleType("{name}")
    package.__path__ = []
    above = sys.modules["{name}_above"] = types.ModuleType("{name}_above")
    above.runtime = package
    for module_name, text in texts.items():
        module = package
        if module_name != "__init__":
            module = sys.modules["{name}." + module_name] = types.ModuleType("{name}." + module_name)
            setattr(package, module_name, module)
        module.__package__ = "{name}"
        exec(compile(text, "<bottega.runtime." + module_name + ">", "exec"), module.__dict__)


{name}({{
{texts}}})
# ---- End of Bottega's runtime. ----
"""


@dataclass(frozen=True)
class _Edit:
    """A stretch of the source, from (line, byte column) to (line, byte column), and what takes its place."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def export_source(source: str) -> str:
    """The candidate as one file on its own; unchanged if it does not use the runtime. ValueError if that cannot be."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads a file
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno}: the candidate does not parse: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the candidate does not parse: {error}") from None
    imports = [node for node in ast.walk(tree) if _concerns_bottega(node)]
    if not imports:
        return source
    wanted = {name for node in imports for name in _wanted(node)}
    texts = _runtime_texts(wanted)
    name = "_bottega_runtime_" + hashlib.sha256((source + str(texts)).encode(errors="surrogatepass")).hexdigest()[:12]
    loader = _LOADER.format(name=name, texts="".join(f'    "{module}": {_quoted(text)},\n' for module, text in texts.items()))
    edits = [
        _Edit((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0), _redirected(node, name))
        for node in imports
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exported = _edited(text, [*edits, _insertion(tree, text, loader)])
    ast.parse(exported)
    return exported


def _concerns_bottega(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "bottega" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and (node.module or "").split(".")[0] == "bottega"
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        named = node.args[0].value
        if called in ("import_module", "__import__") and isinstance(named, str) and named.split(".")[0] == "bottega":
            raise ValueError(f"line {node.lineno}: {called}({named!r}) cannot be exported; write it as an import statement")
    return False


def _wanted(node: ast.AST) -> set[str]:
    """The runtime's names that an import asks for; `*` for all of them."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names if alias.name.split(".")[0] == "bottega"]
        _check_modules(modules, node.lineno)
        return {"*"}
    assert isinstance(node, ast.ImportFrom)
    names = {alias.name for alias in node.names}
    if node.module == "bottega":
        _check_modules([f"bottega.{name}" for name in names], node.lineno)
        return {"*"}
    _check_modules([node.module or ""], node.lineno)
    if node.module == _PACKAGE:
        _check_modules([f"{_PACKAGE}.{name}" for name in names if name in _NOT_EXPORTED], node.lineno)
        return names
    return {(node.module or "").split(".")[2]}


def _check_modules(modules: list[str], line: int) -> None:
    for module in modules:
        parts = module.split(".")
        if module != "bottega" and (parts[:2] != ["bottega", "runtime"] or parts[2:3] == ["export"]):
            raise ValueError(f"line {line}: the candidate imports {module}; an exported kernel can take only {_PACKAGE} along")


def _runtime_texts(wanted: set[str]) -> dict[str, str]:
    """The modules that define the wanted names and those they import, each after what it needs, the package last."""
    folder = Path(__file__).parent
    modules = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    homes = _homes(modules["__init__"])
    if "*" in wanted:
        wanted = set(homes)
    unknown = sorted(name for name in wanted if name not in homes and (name not in modules or name in _NOT_EXPORTED))
    if unknown:
        raise ValueError(f"the candidate imports {unknown[0]} from {_PACKAGE}, which has only {', '.join(sorted(homes))}")
    needed: dict[str, str] = {}

    def need(module: str) -> None:
        for other in sorted(set(_homes(modules[module]).values())):
            if other not in needed:
                need(other)
        needed[module] = modules[module]

    for name in sorted(wanted):
        need(homes.get(name, name))
    shown = sorted(name for name, home in homes.items() if home in needed)
    lines = [f"from .{homes[name]} import {name}" for name in shown]
    return {**needed, "__init__": "\n".join([*lines, f"__all__ = {shown!r}", ""])}


def _homes(text: str) -> dict[str, str]:
    """The names that a module of the runtime takes from its siblings, and from which."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {alias.name: node.module for node in nodes if node.module for alias in node.names}


def _redirected(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """The same import statement, of the package in this file."""
    if isinstance(node, ast.ImportFrom):
        module = f"{name}_above" if node.module == "bottega" else name + (node.module or "").removeprefix(_PACKAGE)
        return f"from {module} import {', '.join(_alias(alias.name, alias.asname) for alias in node.names)}"
    parts = []
    for alias in node.names:
        if alias.name.split(".")[0] != "bottega":
            parts.append(_alias(alias.name, alias.asname))
        elif alias.name == "bottega" or alias.asname is None:  # both bind the package above the runtime
            parts.append(f"{name}_above as {alias.asname or 'bottega'}")
        else:
            parts.append(_alias(name + alias.name.removeprefix(_PACKAGE), alias.asname))
    return f"import {', '.join(parts)}"


def _alias(name: str, local: str | None) -> str:
    return f"{name} as {local}" if local else name


def _insertion(tree: ast.Module, text: str, loader: str) -> _Edit:
    """Where the runtime goes: after docstring and `from __future__` lines, which must stay first, before all else."""
    body = tree.body
    count = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    while count < len(body) and isinstance(body[count], ast.ImportFrom) and getattr(body[count], "module", "") == "__future__":
        count += 1
    if count == 0:
        first = body[0]
        line = min([first.lineno, *(decorator.lineno for decorator in getattr(first, "decorator_list", []))])
        return _Edit((line, 0), (line, 0), loader)
    end = (body[count - 1].end_lineno or 0, body[count - 1].end_col_offset or 0)
    if count < len(body) and body[count].lineno == end[0]:  # joined by a semicolon
        return _Edit(end, (body[count].lineno, body[count].col_offset), "\n" + loader)
    if end[0] == text.count("\n") + 1:
        return _Edit(end, end, "\n" + loader)
    return _Edit((end[0] + 1, 0), (end[0] + 1, 0), loader)


def _edited(text: str, edits: list[_Edit]) -> str:
    """The text with all edits made, the last one first, so that the positions of the others hold."""
    lines = text.encode(errors="surrogatepass").split(b"\n")
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        (first, left), (last, right) = edit.start, edit.end
        joined = lines[first - 1][:left] + edit.text.encode() + lines[last - 1][right:]
        lines[first - 1 : last] = joined.split(b"\n")
    return b"\n".join(lines).decode(errors="surrogatepass")


def _quoted(text: str) -> str:
    """As a string literal that reads like the module it holds, where that can be."""
    if "'''" in text or text.endswith("'"):
        return repr(text)
    return f"r'''{text}'''"
