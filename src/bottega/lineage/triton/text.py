"""Triton kernels in a candidate's syntax tree: the kernels, their launches, and replacing single nodes in the text.

Only the nodes that a rule changes are written anew; all other lines stay as their author wrote them, so that a step's difference is the step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from bottega.languages import detect_language, language_named
from bottega.lineage.text_places import TextPlaces

Node = ast.expr | ast.stmt | ast.Module
"""What a rule writes anew. Text that is given for the module is added at its end."""


@dataclass(frozen=True)
class KernelLaunch:
    call: ast.Call
    kernel: str
    grid: ast.expr


@dataclass(frozen=True)
class TritonText:
    text: str
    tree: ast.Module

    @cached_property
    def kernels(self) -> dict[str, ast.FunctionDef]:
        names = set(language_named(detect_language(self.text)).kernel_names(self.text))
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.name in names}

    @cached_property
    def launches(self) -> list[KernelLaunch]:
        found = []
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id in self.kernels:
                found.append(KernelLaunch(node, node.func.value.id, node.func.slice))
        return found

    @cached_property
    def host(self) -> list[ast.stmt]:
        """Statements outside of kernels, at any depth."""
        inside = {id(node) for kernel in self.kernels.values() for node in ast.walk(kernel)}
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and id(node) not in inside]

    def calls(self, name: str) -> Iterator[tuple[str, ast.Call]]:
        """Calls of `tl.NAME` in kernels, with the kernel's name; inner ones behind outer ones."""
        for kernel, function in self.kernels.items():
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and tl_name(node.func) == name:
                    yield kernel, node

    def replaced(self, changes: Sequence[tuple[Node, str]]) -> str:
        """The text with these nodes written anew. A change inside another changed node is left out; an empty text deletes a statement's line."""
        places = TextPlaces(self.text)
        spans = [(*_span(node, places), new, node) for node, new in changes if not isinstance(node, ast.Module)]
        kept = [
            one for one in spans if not any(one is not other and other[0] <= one[0] and one[1] <= other[1] for other in spans)
        ]
        text = self.text
        for first, behind, new, node in sorted(kept, key=lambda each: -each[0]):
            lines = new.split("\n")
            indent = " " * (node.col_offset if isinstance(node, ast.stmt) else 0)
            gone = not new and isinstance(node, ast.stmt)
            start = places.starts[node.lineno - 1] if gone else first
            end = places.starts[node.end_lineno or node.lineno] if gone else behind
            text = (
                text[:start] + "\n".join([lines[0], *(f"{indent}{line}" if line else line for line in lines[1:])]) + text[end:]
            )
        for added in (new for node, new in changes if isinstance(node, ast.Module)):
            text = f"{text.rstrip()}\n\n\n{added}\n"
        return text


def _span(node: ast.expr | ast.stmt, places: TextPlaces) -> tuple[int, int]:
    last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return places.at(node.lineno, node.col_offset), places.at(last, column)


def triton_text(source: str) -> TritonText | None:
    """None for what does not parse."""
    try:
        return TritonText(source, ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tl_name(function: ast.expr) -> str:
    """`load` of `tl.load`, `rsqrt` of `tl.math.rsqrt`; empty for other functions."""
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value)
        if owner in ("tl", "triton.language", "tl.math", "tl.extra.libdevice"):
            return function.attr
    return ""


def with_keyword(call: ast.Call, name: str, value: ast.expr | None) -> str:
    """The call with this keyword set, or without it."""
    keywords = [keyword for keyword in call.keywords if keyword.arg != name]
    if value is not None:
        places = [place for place, keyword in enumerate(call.keywords) if keyword.arg == name]
        keywords.insert(places[0] if places else len(keywords), ast.keyword(name, value))
    return ast.unparse(ast.Call(call.func, call.args, keywords))


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def substituted(node: ast.expr, name: str, new: ast.expr) -> ast.expr:
    """A copy of an expression with a name replaced."""

    class Substitute(ast.NodeTransformer):
        def visit_Name(self, found: ast.Name) -> ast.expr:
            return new if found.id == name else found

    copy: ast.expr = Substitute().visit(ast.parse(ast.unparse(node), mode="eval").body)
    return copy
