"""What the calls of a module's class run: its methods, the functions that these call, and the constants that they read by name.

A kernel was made for one such code. Another version of a class has the same name and attributes, and so has one with a method that was replaced.
torch's own code and the standard library's are taken as they are, but for `forward` of torch's modules, which tools replace.
"""

import hashlib
import opcode
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

MOST_PIECES = 256
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}{'-O' if sys.flags.optimize else ''}"
"""Compiled code can be compared within one version."""
_ASIDE = frozenset({"torch", *sys.stdlib_module_names}) - {"__main__"}
_LOAD, _STORE, _EXTENDED = opcode.opmap["LOAD_GLOBAL"], opcode.opmap["STORE_GLOBAL"], opcode.EXTENDED_ARG


def names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def function_of(held: Any) -> types.FunctionType | None:
    """The Python function behind what a class or a file holds under a name."""
    function = getattr(held, "__func__", None) or getattr(held, "fget", None) or held
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function if isinstance(function, types.FunctionType) else None


def code_told(function: types.FunctionType) -> str:
    """The same for two functions that differ in comments and docstrings alone."""
    content = (
        _code_content(function.__code__, function.__doc__),
        function.__defaults__ and [*map(_constant, function.__defaults__)],
    )
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def pieces(kind: type) -> list[tuple[Mapping[str, Any], str, Any]]:
    """What `forward` of a class reaches now: where each is kept, under which name, and what is there."""
    bases = [base for base in kind.__mro__ if base not in (nn.Module, object)]
    found: list[tuple[Mapping[str, Any], str, Any]] = []
    seen: set[tuple[int, str]] = set()

    def take(owner: Any, name: str) -> None:
        """Of a class, or of the names of a file."""
        if (id(owner), name) not in seen and len(found) < MOST_PIECES:
            seen.add((id(owner), name))
            held = vars(owner) if isinstance(owner, type) else owner
            found.append((held, name, held[name]))

    for first in [base for base in bases if "forward" in vars(base)][:1]:
        take(first, "forward")
    for held, _, value in found:  # which grows meanwhile
        function = function_of(value)
        if function is None or is_aside(function):
            continue
        names, around = list(dict.fromkeys(names_in(function.__code__))), function.__globals__
        for name in names if isinstance(held, types.MappingProxyType) else ():  # of a class
            base = next((base for base in bases if name in vars(base)), None)
            if base is not None and _counts(vars(base)[name]):
                take(base, name)
        read, stored = (list(dict.fromkeys(_globals(function.__code__, of))) for of in (_LOAD, _STORE))
        for name in read:  # not those that it sets itself: flags and counters
            if name in around and _counts(around[name]) and name not in stored:
                take(around, name)
        for module in [around[name] for name in read if isinstance(around.get(name), types.ModuleType)]:
            if module.__name__.partition(".")[0] not in _ASIDE:
                for name in names:
                    if isinstance(vars(module).get(name), types.FunctionType):
                        take(vars(module), name)
    return found


def is_aside(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in _ASIDE


def _counts(value: Any) -> bool:
    """Functions of Python's that are not torch's, plain values and tensors; no lists and dictionaries, which may be caches."""
    if isinstance(value, bool | int | float | complex | str | tuple | torch.Tensor):
        return True
    function = function_of(value)
    return function is not None and not is_aside(function)


def _globals(code: types.CodeType, wanted: int) -> Iterator[str]:
    """Names of the file that code, or code inside of it, reads or sets. An attribute may have the name of a variable of the file."""
    text, above = code.co_code, 0
    for operation, argument in zip(text[::2], text[1::2]):
        if operation == wanted:
            yield code.co_names[(above | argument) >> (wanted == _LOAD)]
        above = (above | argument) << 8 if operation == _EXTENDED else 0
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant, wanted)


def _code_content(code: types.CodeType, doc: str | None = None) -> Any:
    constants = [_code_content(each) if isinstance(each, types.CodeType) else _constant(each) for each in code.co_consts]
    if doc is not None and code.co_consts and code.co_consts[0] == doc:
        constants[0] = repr(None)
    return code.co_code, code.co_names, code.co_argcount, code.co_kwonlyargcount, constants


def _constant(value: Any) -> str:
    text = repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
    return text if " at 0x" not in text else type(value).__name__
