"""Settings of a command: a pydantic model, laid together from its defaults, a preset, a TOML file, flags and `key=value` arguments.

Each source overrides the one before it. A key that does not exist is refused with the nearest one that does: nothing is ignored. The docstring
under a field is its documentation, in `--help`, in `bottega settings` and in the TOML that it writes.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from bottega.core.errors import UsageError


class Section(BaseModel):
    """A group of settings: frozen, and without room for keys that it does not name."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class CommandSettings(Section):
    """All settings of one command. A key that several words of a command line name in another way has an alias."""

    command: ClassVar[str]
    flags: ClassVar[tuple[str, ...]]
    """Keys that are flags too; with `--preset` and `--config` ten at most."""


S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class SettingsLayer:
    """What one source says."""

    source: str
    values: Mapping[str, Any]


def preset_names(package: str) -> list[str]:
    """Names of the presets that ship as TOML files in a package."""
    return sorted(entry.name[:-5] for entry in files(package).iterdir() if entry.name.endswith(".toml"))


def preset_text(package: str, name: str) -> str:
    """The file as it ships, with what it says of itself."""
    names = preset_names(package)
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        meant = f", did you mean {near[0]}?" if near else ""
        raise UsageError(f"no preset is called {name!r}{meant}; there are {', '.join(names)}")
    return (files(package) / f"{name}.toml").read_text(encoding="utf-8")


def read_preset(package: str, name: str) -> SettingsLayer:
    return SettingsLayer(f"preset {name}", _parsed(preset_text(package, name), name))


def read_file(path: Path) -> SettingsLayer:
    try:
        return SettingsLayer(str(path), _parsed(path.read_text(encoding="utf-8"), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def read_sources(package: str, preset: str | None, file: Path | None) -> list[SettingsLayer]:
    """The presets, by comma and each over the one before, and the file, as far as they are named."""
    layers = [read_preset(package, name.strip()) for name in preset.split(",")] if preset is not None else []
    return [*layers, read_file(file)] if file is not None else layers


def split_tables(layer: SettingsLayer, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The keys that all readers of a file share, and its tables that are for one of them alone."""
    tables = {name: layer.values[name] for name in names if name in layer.values}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{layer.source}: {name} must be a table of settings")
    return {key: value for key, value in layer.values.items() if key not in tables}, tables


def read_settings(model: type[S], layers: Sequence[SettingsLayer]) -> S:
    """The model with every layer over the one before it. Raises `UsageError` with the source, the key, what was given and what is allowed."""
    merged: dict[str, Any] = {}
    for layer in layers:
        refuse_unknown(model, layer.values, layer.source)
        lay(merged, layer.values)
    try:
        return model.model_validate(merged)
    except ValidationError as error:
        raise UsageError("; ".join(_messages(model, error, layers))) from None


def overrides_of(model: type[BaseModel], words: Iterable[str], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`section.key=value` words laid over a mapping. A value is TOML, `none`, or else a word; a text setting takes it as it stands."""
    found: dict[str, Any] = {}
    lay(found, base or {})
    for word in words:
        path, equals, text = word.partition("=")
        names = [name.strip() for name in path.split(".")]
        if not equals or not all(names):
            raise UsageError(f"{word!r} is no setting: write section.key=value, such as optimiser.lr=1e-4")
        value = _value(text.strip(), as_text=_takes_text(model, names))
        for name in reversed(names):
            value = {name: value}
        lay(found, value)
    return found


def checked(model: type[S], values: Mapping[str, Any], source: str) -> S:
    """The model from one source."""
    return read_settings(model, [SettingsLayer(source, values)])


def refuse_unknown(model: type[BaseModel], values: Mapping[str, Any], source: str) -> None:
    """Raises for keys that do not exist. Values wait until all layers are together: one may make room for another."""
    known = set(keys(model))
    for key in _said(values):
        if key in known:
            continue
        above = key.rpartition(".")[0]
        if not above or (above in known and _section_at(model, above) is not None):
            raise UsageError(f"{source}: there is no setting {key}{_suggestion(model, key.split('.'))}")


def changed(before: Section, after: Section) -> list[str]:
    """Dotted keys whose values differ."""
    old, new = dict(flat(before.model_dump())), dict(flat(after.model_dump()))
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def keys(section: type[BaseModel], before: str = "") -> Iterator[str]:
    """Dotted names of everything that can be set, sections included."""
    for name, field in section.model_fields.items():
        key = before + (field.alias or name)
        yield key
        inside = section_of(field.annotation)
        if inside is not None:
            yield from keys(inside, f"{key}.")


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, also where it may be none."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def lay(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping):
            below = under.get(name)
            under[name] = below if isinstance(below, dict) else {}
            lay(under[name], value)
        else:
            under[name] = value


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _messages(model: type[BaseModel], error: ValidationError, layers: Sequence[SettingsLayer]) -> list[str]:
    """A line for each key: who set it, what was given, what is allowed."""
    known, found = set(keys(model)), dict[str, tuple[str, list[str]]]()
    for each in error.errors():
        names = [str(part) for part in each["loc"]]
        while names and ".".join(names) not in known:  # the branches of a union and the places in a list are no keys
            names.pop()
        key = ".".join(names)
        given = each.get("input")
        shown = "" if isinstance(given, dict | BaseModel) or each["type"] == "missing" else f" = {given!r}"
        source = next((layer.source for layer in reversed(layers) if key in set(_said(layer.values))), "settings")
        _, reasons = found.setdefault(
            key, (f"{source}: {key}{shown}" if key else f"{layers[-1].source if layers else 'settings'}", [])
        )
        if each["type"] == "missing":
            written = f"--{key.replace('_', '-')}" if key in getattr(model, "flags", ()) else f"the setting {key}"
            field = _field_at(model, names)
            found[key] = (f"{written} must be given", [" ".join((field.description or "").split())])
            continue
        inside = [name for name in keys(model) if name.startswith(f"{key}.")] if each["type"] == "model_type" else []
        reasons.append(f"is a table; set {', '.join(inside)}" if inside else each["msg"].removeprefix("Value error, "))
    return [f"{start}: {' or '.join(dict.fromkeys(reasons))}" for start, reasons in found.values()]


def _said(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Dotted names of all keys of a mapping, tables included."""
    for name, value in values.items():
        yield before + name
        if isinstance(value, Mapping):
            yield from _said(value, f"{before}{name}.")


def _suggestion(model: type[BaseModel], names: Sequence[str]) -> str:
    known = sorted(keys(model))
    nearest = difflib.get_close_matches(".".join(names), known, 1, 0.75)
    if not nearest:  # the right word in the wrong section, or nearly
        by_last = {key.rpartition(".")[2]: key for key in known}
        close = difflib.get_close_matches(names[-1], by_last, 1, 0.75)
        nearest = [by_last[word] for word in close]
    if nearest:
        return f"; did you mean {nearest[0]}?"
    inside = [key for key in known if key.rpartition(".")[0] == ".".join(names[:-1])]
    return f"; {'.'.join(names[:-1]) or 'a configuration'} has {', '.join(key.rpartition('.')[2] for key in inside)}"


def _field_at(model: type[BaseModel], names: Sequence[str]) -> Any:
    """The field behind a dotted key, or None."""
    section: type[BaseModel] | None = model
    field = None
    for name in names:
        fields = section.model_fields.items() if section is not None else ()
        field = next((each for own, each in fields if name == (each.alias or own)), None)
        section = section_of(field.annotation) if field is not None else None
    return field


def _section_at(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    field = _field_at(model, key.split("."))
    return section_of(field.annotation) if field is not None else None


def _takes_text(model: type[BaseModel], names: Sequence[str]) -> bool:
    """Whether a dotted key is a text, so that `init=64` is "64" and not a number."""
    field = _field_at(model, names)
    return field is not None and (field.annotation is str or field.annotation == str | None)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: is no TOML: {error}") from None


def _value(text: str, as_text: bool) -> Any:
    if text.lower() in ("none", "null"):
        return None
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if as_text and not isinstance(value, str) else value
