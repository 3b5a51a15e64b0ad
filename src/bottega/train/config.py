"""One TOML for a learning run: a preset, a file over it, dotted overrides over both; a key that does not exist is never ignored.

Sections are shared by SFT and RL. What differs between the two stands in the tables `[sft.…]` and `[rl.…]` of the same file, which are
laid over the shared sections for that stage. What one stage alone reads may stand in a shared section, since one file serves both; said to
the other one by its own table or by an override it is an error, because nothing would come of it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from bottega.core.errors import UsageError
from bottega.train.settings import Config

Stage = Literal["sft", "rl"]
STAGES = ("sft", "rl")
WITHOUT_EFFECT: dict[Stage, dict[str, str]] = {
    "rl": {
        "data.batch_tokens": "an update takes all that the step's rollouts came to; rollout.tasks, schemes and samples say how much that is",
        "data.batch_rows": "an update takes all that the step's rollouts came to; rollout.tasks, schemes and samples say how much that is",
        "data.epochs": "an RL run is as long as data.steps says",
        "data.held_out": "RL evaluates nothing on the way; `bottega bench` does, on tasks of its own",
        "data.roles": "ablations.roles says which roles are trained",
        "log.eval_every": "RL evaluates nothing on the way; `bottega bench` does, on tasks of its own",
        "log.eval_rows": "RL evaluates nothing on the way; `bottega bench` does, on tasks of its own",
    },
    "sft": {
        "data.tasks": "its rows come from --data",
        "log.stop_on_alarm": "alarms are RL's",
        "checkpoint.step_logs": "nothing is drawn and judged",
        **dict.fromkeys(("rollout", "skills", "reward", "advantage", "rejection", "ablations"), "nothing is drawn and judged"),
    },
}
"""Of each stage the settings, or whole sections, that it does not read, and why."""


def presets() -> list[str]:
    return sorted(entry.name[:-5] for entry in files("bottega.train.presets").iterdir() if entry.name.endswith(".toml"))


def read_config(stage: Stage, preset: str | None = None, file: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Raises `UsageError` with the key, what is wrong with it, and the nearest key that exists."""
    layers: list[tuple[str, dict[str, Any]]] = []
    if preset is not None:
        if preset not in presets():
            raise UsageError(f"no preset is called {preset!r}{_nearest(preset, presets())}; there are {', '.join(presets())}")
        layers.append((f"preset {preset}", _parsed((files("bottega.train.presets") / f"{preset}.toml").read_text(), preset)))
    if file is not None:
        try:
            layers.append((str(file), _parsed(file.read_text(encoding="utf-8"), str(file))))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from None
    # A cold start begins with the plain model, not with what comes along trained; RL goes on from whatever is named.
    cold = {"loss": {"normalise": "tokens"}, "model": {"name": "embedded:base"}}
    merged: dict[str, Any] = cold if stage == "sft" else {}
    for name, layer in layers:
        shared = {key: value for key, value in layer.items() if key not in STAGES}
        for part in (shared, *(_table(layer[key], f"{name}: {key}") for key in STAGES if key in layer)):
            _known(part, name)  # of the other stage too: a mistake there is one
        _lay(merged, shared)
        _lay(merged, layer.get(stage, {}))
    said = overridden({}, overrides)
    _lay(merged, said)
    config = checked(merged, "overrides" if overrides else layers[-1][0] if layers else "settings")
    for name, own in (*((name, layer.get(stage, {})) for name, layer in layers), ("overrides", said)):
        refuse_without_effect(stage, own, name)
    if stage == "sft" and config.data.pack_tokens > config.data.batch_tokens and config.data.batch_rows is None:
        raise UsageError(
            f"data.pack_tokens ({config.data.pack_tokens}) must fit into data.batch_tokens ({config.data.batch_tokens})"
        )
    return config


def refuse_without_effect(stage: Stage, said: Mapping[str, Any], source: str) -> None:
    """Raises `UsageError` for a setting that was said to a stage which does not read it."""
    for key, _ in _flat(said):
        parts = key.split(".")
        for count in range(1, len(parts) + 1):
            why = WITHOUT_EFFECT[stage].get(".".join(parts[:count]))
            if why is not None:
                raise UsageError(f"{source}: {key} has no effect in {stage.upper()}: {why}")


def overridden(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Values with `section.key=value` laid over them. A value is TOML; what is no TOML is a word."""
    found: dict[str, Any] = {}
    _lay(found, values)
    for override in overrides:
        path, equals, text = override.partition("=")
        names = [name.strip() for name in path.split(".")]
        if not equals or not all(names):
            raise UsageError(f"{override!r} is no override: write section.key=value, such as optimiser.lr=1e-4")
        value = _value(text.strip())
        for name in reversed(names):
            value = {name: value}
        _lay(found, value)
    return found


def checked(values: Mapping[str, Any], source: str) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{source}: {'; '.join(_told(each) for each in error.errors())}") from None


def _known(values: Mapping[str, Any], source: str) -> None:
    """Raise for keys that do not exist. Values wait until all layers are together: one may make room for another."""
    try:
        Config.model_validate(values)
    except ValidationError as error:
        unknown = [_told(each) for each in error.errors() if each["type"] == "extra_forbidden"]
        if unknown:
            raise UsageError(f"{source}: {'; '.join(unknown)}") from None


def changed(before: Config, after: Config) -> list[str]:
    """Dotted keys whose values differ."""
    old, new = dict(_flat(before.model_dump())), dict(_flat(after.model_dump()))
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _told(error: Any) -> str:
    names = [str(part) for part in error["loc"]]
    key = ".".join(names)
    if error["type"] == "extra_forbidden":
        return f"there is no setting {key}{_suggestion(names)}"
    given = error.get("input")
    shown = "" if isinstance(given, dict | BaseModel) else f" = {given!r}"
    return f"{key or 'settings'}{shown}: {error['msg'].removeprefix('Value error, ')}"


def _suggestion(names: Sequence[str]) -> str:
    known = sorted(keys(Config))
    nearest = difflib.get_close_matches(".".join(names), known, 1, 0.75)
    if not nearest:  # the right word in the wrong section, or nearly
        by_last = {key.rpartition(".")[2]: key for key in known}
        close = difflib.get_close_matches(names[-1], by_last, 1, 0.75)
        nearest = [by_last[word] for word in close]
    if nearest:
        return f"; did you mean {nearest[0]}?"
    inside = [key for key in known if key.rpartition(".")[0] == ".".join(names[:-1])]
    return f"; {'.'.join(names[:-1]) or 'a configuration'} has {', '.join(key.rpartition('.')[2] for key in inside)}"


def keys(section: type[BaseModel], before: str = "") -> Iterator[str]:
    """Dotted names of everything that can be set, sections included."""
    for name, field in section.model_fields.items():
        yield before + name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from keys(kind, f"{before}{name}.")


def _nearest(word: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(word, known, 1)
    return f", did you mean {found[0]}?" if found else ""


def _lay(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping):
            below = under.get(name)
            under[name] = below if isinstance(below, dict) else {}
            _lay(under[name], value)
        else:
            under[name] = value


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: is no TOML: {error}") from None


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be a table of sections")
    return value


def _value(text: str) -> Any:
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
