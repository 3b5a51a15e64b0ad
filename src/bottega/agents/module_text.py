"""A task as a small model reads it. Where it has a call graph, that says everything that a kernel must do and the text is left out: modules
that do the same look the same, however they are written. Without a call graph the task's text is shown, without prose.
"""

from __future__ import annotations

import ast
import io
import tokenize

from bottega.compiler.callgraph import CallGraph


def task_text(source: str, callgraph: CallGraph | None, style: str) -> str:
    if style != "terse":
        return source
    return "" if callgraph else without_prose(source)


def without_prose(source: str) -> str:
    """The same file without comments and docstrings, otherwise as it was written. A file that does not parse stays as it is."""
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return source
    lines = source.splitlines(keepends=True)
    gone: set[int] = set()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            number = token.start[0] - 1
            kept = lines[number][: token.start[1]].rstrip()
            lines[number] = kept + "\n" if kept else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            if len(node.body) > 1 and first.end_lineno is not None:
                gone |= set(range(first.lineno - 1, first.end_lineno))
                after = first.end_lineno
                while after < len(lines) and not lines[after].strip():
                    gone.add(after)
                    after += 1
    return "".join(line for number, line in enumerate(lines) if number not in gone).lstrip("\n")
