"""Commands whose options are a settings model: every setting is a `key=value` argument and a key in TOML, and the ten most used are flags.

The flags, their help and their defaults are made from the model, so that nothing is written twice. Order of the sources: defaults, `--preset`,
`--config`, flags, `key=value`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args

import typer
from typer.core import TyperCommand

from bottega.core.errors import UsageError
from bottega.core.settings import (
    CommandSettings,
    SettingsLayer,
    keys,
    overrides_of,
    preset_names,
    read_settings,
    read_sources,
    split_tables,
)

PRESETS = "bottega.app.presets"
COMMANDS = {
    "optimize": "bottega.app.settings.optimize:OptimizeSettings",
    "bench": "bottega.bench.settings:BenchSettings",
    "data build": "bottega.app.settings.data_build:DataBuildSettings",
    "tasks synth": "bottega.app.synth_command:TasksSynthSettings",
    "skills verify": "bottega.app.skills_proving:SkillsVerifySettings",
    "lineage mine": "bottega.app.lineage_command:LineageMineSettings",
    "serve": "bottega.app.settings.serve:ServeSettings",
    "mcp": "bottega.app.settings.mcp:McpSettings",
    "sft": "bottega.train.settings:Config",
    "train": "bottega.train.settings:Config",
}
"""Commands with settings, and where their models are."""
TABLES = tuple(name.replace(" ", "-") for name in COMMANDS)
_SETTING = re.compile(r"[A-Za-z_][\w.]*\s*=")


C = TypeVar("C", bound=CommandSettings)


class Given(Generic[C]):
    """What a command was called with: its settings, the words that are no settings, and which keys the command line set."""

    def __init__(self, settings: C, words: Sequence[str], keys: Sequence[str]) -> None:
        self.settings, self.words, self.keys = settings, list(words), tuple(keys)


def configured(
    app: typer.Typer, model: type[C], words: str, words_help: str = ""
) -> Callable[[Callable[[Given[C]], None]], Callable[..., None]]:
    """Registers a function as the model's command. `words`: how the arguments before the settings are called in the usage line."""

    def register(body: Callable[[Given[C]], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            body(given_by(model, values))

        parameters = [_argument(words, words_help), *(_flag(model, key) for key in model.flags), _preset(), _config()]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        command.__doc__ = body.__doc__
        name = model.command.rpartition(" ")[2]
        more = f"All settings, with defaults and docs: bottega settings {model.command}"
        app.command(name, cls=_command_class(model), epilog=more)(command)
        return body  # type: ignore[return-value]

    return register


def given_by(model: type[C], values: Mapping[str, Any]) -> Given[C]:
    """From the parameters of a parsed command line. Raises `UsageError` for a setting that does not exist or a value that cannot be."""
    arguments = values["arguments"] or []
    layers: list[SettingsLayer] = []
    for layer in read_sources(PRESETS, values["preset"], values["config"]):
        shared, tables = split_tables(layer, TABLES)
        own = tables.get(model.command.replace(" ", "-"), {})
        layers += [SettingsLayer(layer.source, shared), SettingsLayer(layer.source, own)]
    flags = {key: value for key in model.flags if (value := values[_parameter(key)]) not in (None, False, [], ())}
    flags = {key: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value for key, value in flags.items()}
    said = overrides_of(model, (word for word in arguments if _SETTING.match(word)))
    layers += [SettingsLayer("command line", flags), SettingsLayer("command line", said)]
    words = [word for word in arguments if not _SETTING.match(word)]
    return Given(read_settings(model, layers), words, [*flags, *said])


def _parameter(key: str) -> str:
    return f"of_{key}"  # `class` and `json` cannot be names of parameters


def _argument(words: str, words_help: str) -> inspect.Parameter:
    metavar = f"{words}|KEY=VALUE" if words else "KEY=VALUE"
    told = f"{words_help} Behind it settings, such as seed=1." if words_help else "Settings, such as seed=1."
    return _keyword("arguments", list[str] | None, typer.Argument(metavar=metavar, help=told, show_default=False))


def _flag(model: type[CommandSettings], key: str) -> inspect.Parameter:
    field = next(each for name, each in model.model_fields.items() if key == (each.alias or name))
    option = f"--{key.replace('_', '-')}"
    told = " ".join((field.description or "").split())
    if field.annotation is bool:
        return _keyword(_parameter(key), bool, typer.Option(option, help=told), default=False)
    several = any(getattr(kind, "__origin__", None) is tuple for kind in (field.annotation, *get_args(field.annotation)))
    default = None if field.default in (None, "", ()) or field.is_required() else _shown(field.default)
    kind: Any = list[str] | None if several else str | None
    return _keyword(
        _parameter(key), kind, typer.Option(option, metavar=_metavar(key), help=told, show_default=default or False)
    )


def _preset() -> inspect.Parameter:
    told = f"Settings for a kind of machine: {', '.join(preset_names(PRESETS))}."
    return _keyword("preset", str | None, typer.Option("--preset", metavar="NAME", help=told))


def _config() -> inspect.Parameter:
    return _keyword("config", Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML, over the preset."))


def _keyword(name: str, kind: Any, info: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _metavar(key: str) -> str:
    return {"out": "DIR", "backbone": "SPEC", "device": "DEVICE", "init": "EXPR", "inputs": "EXPR"}.get(key, key.upper())


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _command_class(model: type[CommandSettings]) -> type[TyperCommand]:
    known = set(keys(model))

    class Configured(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """A setting that is written as a flag is told how to write it."""
            flags = {option for each in self.params for option in each.opts} | {"--help"}
            for word in args:
                option = word.partition("=")[0]
                key = option.removeprefix("--").replace("-", "_")
                if option.startswith("--") and option not in flags and key in known:
                    raise UsageError(f"{option} is no flag of `bottega {model.command}` but a setting: write {key}=VALUE")
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                given_by(model, ctx.params)  # what is wrong is told before anything else is done
            return rest

    return Configured
