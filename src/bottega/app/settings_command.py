"""`bottega settings`: all settings of a command with their kinds, defaults and docs, or as a TOML file to edit."""

from __future__ import annotations

import json
import textwrap
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from bottega.app.configured import COMMANDS, PRESETS
from bottega.app.terminal import Terminal, print_json, write_source
from bottega.core.errors import UsageError
from bottega.core.plugins import Plugins
from bottega.core.settings import flat, preset_text, section_of

WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path", type(None): "none"}
LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@dataclass(frozen=True)
class SettingRow:
    key: str
    kind: str
    default: Any
    required: bool
    doc: str
    optional_section: bool = False
    """Inside of a section that is left out by default."""


@app.command("settings")
def settings_command(
    command: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help=f"One of: {', '.join(COMMANDS)}.")] = None,
    toml: Annotated[bool, typer.Option("--toml", help="As a TOML file, to edit and to pass back with --config.")] = False,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="Print this preset, and where its settings come from.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array on standard output.")] = False,
) -> None:
    """Print all settings of a command: key, kind of value, default and what it does.

        bottega settings optimize
        bottega settings train --toml > mine.toml
        bottega settings train --preset kevin

    Each can be given as a `key=value` argument and in a TOML file. Later ones win: defaults, `--preset NAME`, `--config FILE`, flags, `key=value`.
    """
    name = " ".join(command or ())
    if name not in COMMANDS:
        raise UsageError(f"{name or 'no command'}: name a command with settings: {', '.join(COMMANDS)}")
    if preset is not None:
        write_source(preset_text("bottega.train.presets" if name in ("sft", "train") else PRESETS, preset))
        return
    found = list(settings_of(name))
    if toml:
        write_source(toml_text(name, found))
    elif as_json:
        rows = [{"key": one.key, "kind": one.kind, "default": _plain(one.default), "doc": one.doc} for one in found]
        print_json(rows)
    else:
        _print(found)


def settings_of(command: str) -> Iterator[SettingRow]:
    """All settings that a command reads."""
    module, _, name = COMMANDS[command].partition(":")
    model: type[BaseModel] = getattr(import_module(module), name)
    if command not in ("sft", "train"):
        yield from _of(model)
        return
    from bottega.train.config import has_effect, read_config

    stage: Literal["sft", "rl"] = "sft" if command == "sft" else "rl"
    defaults = dict(flat(read_config(stage).model_dump()))  # those of SFT are its own
    for one in _of(model):
        if has_effect(stage, one.key):
            yield replace(one, default=defaults.get(one.key, one.default))


def _of(model: type[BaseModel], before: str = "", optional: bool = False) -> Iterator[SettingRow]:
    """The section's own settings first: in TOML nothing of it may follow a table inside of it."""
    inside: list[tuple[str, type[BaseModel], bool]] = []
    for name, field in model.model_fields.items():
        key, section = before + (field.alias or name), section_of(field.annotation)
        if section is not None:
            inside.append((f"{key}.", section, optional or type(None) in get_args(field.annotation)))
            continue
        kind = " ".join([kind_of(field.annotation), *_limits(field.metadata)])
        doc = " ".join((field.description or "").split())
        yield SettingRow(key, kind, None if field.is_required() else field.default, field.is_required(), doc, optional)
    for above, section, left_out in inside:
        yield from _of(section, above, left_out)


def kind_of(annotation: Any) -> str:
    """A kind of value in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin is Annotated:
        rules = [rule for part in parts[1:] for rule in (getattr(part, "metadata", None) or [part])]
        return " ".join([kind_of(parts[0]), *_limits(rules)])
    if origin in (Union, types.UnionType):
        return " or ".join(kind_of(part) for part in parts)
    if origin is tuple:
        return f"list of {kind_of(parts[0])}"
    if origin is dict:
        return f"table of {kind_of(parts[1])}"
    return WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(rules: Iterable[Any]) -> list[str]:
    """What is allowed: bounds, and the names of plug-ins."""
    plugins = [owner for rule in rules if isinstance(owner := getattr(getattr(rule, "func", None), "__self__", None), Plugins)]
    if plugins:
        return [f"({', '.join(plugins[0].names)}, or module:Name)"]
    told = [
        f"{LIMITS[name]} {value:g}" for rule in rules for name in LIMITS if (value := getattr(rule, name, None)) is not None
    ]
    return [f"({', '.join(told)})"] if told else []


def toml_text(command: str, found: list[SettingRow]) -> str:
    """A file that says the defaults. What has none stands there as a comment."""
    lines = [f"# Settings of `bottega {command}` with their defaults. Pass it back with: bottega {command} --config FILE"]
    section = ""
    for one in found:
        above, _, name = one.key.rpartition(".")
        if above != section:
            lines += ["", f"{'# ' * one.optional_section}[{above}]"]
            section = above
        lines += ["", *textwrap.wrap(f"{one.doc} Takes: {one.kind}.".strip(), 118, initial_indent="# ", subsequent_indent="# ")]
        lines.append(f"# {name} =" if one.default is None else f"{'# ' * one.optional_section}{name} = {_toml(one.default)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


def _print(found: list[SettingRow]) -> None:
    table = Table("key", "default", "kind", "what it does", show_lines=False, pad_edge=False, box=None)
    for one in found:
        default = "needed" if one.required else "none" if one.default is None else _toml(one.default).strip('"')
        table.add_row(Text(one.key, "bold"), Text(default, "cyan"), Text(one.kind, "dim"), Text(one.doc))
    console = Terminal()
    console.print(table) if console.is_terminal else Terminal(width=200).print(table)
