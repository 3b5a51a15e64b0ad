"""Names of kernels in a text, found token by token: behind a decorator in Python, behind a mark of a declaration in C++ and CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from bottega.core.foreign_text import is_name, tokens

_ATTRIBUTES = frozenset({"__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__attribute__", "__declspec", "alignas"})
"""Words of a declaration that have brackets of their own, before the kernel's name."""
_NO_DECLARATION = frozenset(";.,=\"'`")
"""Signs that stand between no mark and its function: the mark was only spoken of."""


def decorated(text: str, decorators: tuple[str, ...]) -> Iterator[str]:
    """Functions behind one of these decorators, such as `triton.jit`. A decorator is the first thing on its line."""
    whole = frozenset(f"@{name}" for name in decorators)
    begun = frozenset(f"@{name}"[: end + more] for name in decorators for end in _dots(f"@{name}") for more in (0, 1))
    """`@triton` and `@triton.`, from which a decorator may still come."""
    decorator = ""
    waiting = False
    last = "\n"
    for token in tokens(text):
        if token == "@" and last in ("\n", '"', "'"):
            decorator = "@"
        elif decorator:
            decorator += token
            waiting = waiting or decorator in whole
            decorator = decorator if decorator in begun else ""
        elif waiting and last == "def" and is_name(token):
            yield token
            waiting = False
        last = token


def _dots(name: str) -> list[int]:
    return [place for place, sign in enumerate(name) if sign == "."]


def declared(text: str, mark: str, before: str = "") -> Iterator[str]:
    """Functions whose declaration begins with `mark`: the first name behind it that has brackets."""
    seeking = block = False
    depth = 0
    """Of brackets that belong to an attribute."""
    last = ""
    for token in tokens(text):
        if token == "\n":
            continue
        if token == mark and before in ("", last):
            seeking, block, depth = True, False, 0
        elif not seeking:
            pass
        elif depth and token not in ("{", "}", ";"):
            depth += (token == "(") - (token == ")")
        elif token == "(" and last in _ATTRIBUTES:
            depth = 1
        elif token == "(":
            if is_name(last) and last != "void":
                yield last
            seeking = False
        elif token == "{" and last == mark:
            block = True
        elif token in ("{", "}") or (token in _NO_DECLARATION and not block):
            seeking = False
        last = token


def extern_c(text: str) -> Iterator[str]:
    return declared(text, '"C"', before="extern")


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Every token with the one before it; a name with dots is one token."""
    before, last = "", ""
    for token in tokens(text):
        if (token == "." or last.endswith(".")) and len(last) < 80:
            last += token
        else:
            before, last = last, token
        yield before, last


def imports_from_runtime(text: str, name: str) -> bool:
    """Whether `name` is imported from `bottega.runtime`, or used as its attribute."""
    importing = open_bracket = False
    for before, last in pairs(text) if "runtime" in text and name in text else ():
        token = last.rpartition(".")[2] or "."
        if token == "import":
            importing, open_bracket = before == "bottega.runtime", False
        elif token == ")" or (token == "\n" and not open_bracket):
            importing = False
        elif token == "(":
            open_bracket = True
        if token == name and (importing or last.endswith(f"runtime.{name}")):
            return True
    return False
