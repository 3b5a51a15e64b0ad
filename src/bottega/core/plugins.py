"""Plug-ins: what users add (a language, a reward, a task source, …) is one class or function, found by its name.

A name is one of the built-in table, or of an installed package's entry points in the group `bottega.KIND`, or `module:Name`. Each package
that can be extended holds one `Plugins` object; nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError


@dataclass(frozen=True)
class Plugins:
    kind: str
    """In the plural, as the entry point group has it: `bottega.rewards`."""
    noun: str
    """One of them, in messages: `reward`."""
    builtin: Mapping[str, str]
    """Name to `module:Name`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The built-in ones in the table's order, then the installed ones."""
        return tuple(dict.fromkeys((*self.builtin, *sorted(_installed(self.kind)))))

    def load(self, name: str) -> Any:
        """The class or function. Raises `UsageError` where the name is unknown or cannot be imported."""
        if name in self.builtin:
            return resolve(self.builtin[name])
        if name in _installed(self.kind):
            try:
                return _installed(self.kind)[name].load()
            except Exception as error:
                value = _installed(self.kind)[name].value
                raise UsageError(f"the {self.noun} {name} ({value}) is installed, but fails: {_message(error)}") from None
        self.check(name)
        return resolve(name)

    def split(self, text: str) -> tuple[str, str]:
        """`NAME:rest` or `module:Name:rest` as name and rest; ("", text) where it names no plug-in. Looks for the module, and does not import it."""
        name, _, rest = text.partition(":")
        if name in self.names:
            return name, rest
        attribute, _, rest = rest.partition(":")
        if _is_reference(f"{name}:{attribute}") and _is_module(name):
            return f"{name}:{attribute}", rest
        return "", text

    def validate(self, name: str) -> str:
        """`check` for a pydantic model, which reports a `ValueError` with the setting's name."""
        try:
            return self.check(name)
        except UsageError as error:
            raise ValueError(str(error)) from None

    def module(self, name: str) -> str:
        """Where it is defined."""
        installed = _installed(self.kind).get(name)
        return self.builtin.get(name, installed.value if installed else name).partition(":")[0]

    def check(self, name: str) -> str:
        """The name itself, where it can be one. `module:Name` is not imported for this."""
        if name in self.names or _is_reference(name):
            return name
        known = f"{', '.join(self.names)}, or module:Name" if self.names else "module:Name"
        raise UsageError(f"unknown {self.noun} {name!r}; use {known}")


def resolve(reference: str) -> Any:
    """What `module:Name` names. A module in the current folder is found too."""
    module_name, _, attribute = reference.partition(":")
    top = module_name.partition(".")[0]
    if not _is_installed(top) and _lies_here(top):
        sys.path.append(str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(f"{reference}: {module_name} cannot be imported: {_message(error)}") from None
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UsageError(f"{reference}: the module {module_name} has no {attribute}") from None
    return found


@cache
def _installed(kind: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"bottega.{kind}")}


def _is_reference(name: str) -> bool:
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def _is_module(name: str) -> bool:
    top = name.partition(".")[0]
    return _is_installed(top) or _lies_here(top)


def _is_installed(module: str) -> bool:
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _lies_here(module: str) -> bool:
    return Path(f"{module}.py").is_file() or Path(module, "__init__.py").is_file()


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
