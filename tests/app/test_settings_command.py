"""Flags and settings of all commands: at most ten flags, every setting documented, every documented command line one that parses."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bottega.app.cli import LAZY, app
from bottega.app.configured import COMMANDS, PRESETS, given_by
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.settings_command import app as settings_app
from bottega.app.settings_command import settings_of, toml_text
from bottega.bench.settings import BenchSettings
from bottega.core.errors import UsageError
from bottega.core.settings import preset_names
from bottega.train.config import read_config

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile",
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "benchmarks").glob("*.py")),
]  # fmt: skip
PLACEHOLDER = re.compile(r"[…\[\]|{}<>$]|\.\.\.")


def commands() -> Iterator[tuple[str, Any]]:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from ((f"{name} {each}", command.get_command(context, each)) for each in command.list_commands(context))
        else:
            yield name, command


def command_named(words: list[str]) -> tuple[Any, list[str]]:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command") and words:  # without a further word it is the group that is named
        command = command.get_command(typer.Context(command), words.pop(0))
        assert command is not None
    return command, words


def documented() -> Iterator[tuple[str, str, bool]]:
    """Lines of code and code spans that begin with a command of ours, where they are, and whether they are whole."""
    known = {name.partition(" ")[0] for name, _ in commands()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        lines = re.findall(r"^(?:    |\t)(?:\$ )?(?:\$\(BIN\)/|\.venv/bin/)?(bottega [^\n#]*)", text, re.M)
        spans = re.findall(r"`(?:\.venv/bin/)?(bottega [^`\n]*)`", text)
        for line, whole in (*((line, True) for line in lines), *((span, False) for span in spans)):
            if line.split()[1] in known:
                yield page.name, line.strip(), whole
    for name, command in commands():
        for line in re.findall(r"^    +(bottega [^\n#]*)", command.help or "", re.M):
            yield name, line.strip(), True


def test_no_command_has_more_than_ten_flags_and_each_help_has_an_example() -> None:
    for name, command in commands():
        options = [each.name for each in command.params if each.param_type_name == "option"]
        flags = [each for each in options if each != "help"]
        assert len(flags) <= 10, name
        assert f"bottega {name}" in (command.help or "") or name == "version", f"{name}: its help shows no example"


def test_every_command_is_imported_when_it_is_asked_for() -> None:
    assert set(LAZY) <= {name.partition(" ")[0] for name, _ in commands()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_is_documented_and_its_toml_can_be_passed_back(command: str, tmp_path: Path) -> None:
    found = list(settings_of(command))
    assert [one.key for one in found if not one.doc] == []
    text = toml_text(command, found)
    values = tomllib.loads(text)
    file = tmp_path / "settings.toml"
    file.write_text(text)
    if command in ("sft", "train"):
        stage: Any = "sft" if command == "sft" else "rl"
        assert read_config(stage, None, file) == read_config(stage)
        return
    called, _ = command_named(command.split())
    needed = [f"{one.key}=x" for one in found if one.required]
    given = given_by(_model(command), called.make_context(command, ["--config", str(file), *needed]).params)
    assert given.settings == given_by(_model(command), called.make_context(command, needed).params).settings
    assert all(one.required or one.default is None or "." in one.key or one.key in values for one in found)


@pytest.mark.parametrize("preset", preset_names(PRESETS))
def test_presets_are_settings_of_their_commands(preset: str) -> None:
    tables = tomllib.loads((ROOT / "src/bottega/app/presets" / f"{preset}.toml").read_text())
    assert set(tables) <= {name.replace(" ", "-") for name in COMMANDS}
    for table in tables:
        name = table.replace("-", " ")
        needed = [f"{one.key}=x" for one in settings_of(name) if one.required]
        command_named(name.split())[0].make_context(name, ["--preset", preset, *needed])


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('samples = 3\nturns = 3\n[bench]\nseed = 3\ndevice = "cuda:1"\n[optimize]\nunread = true\n')
    command, _ = command_named(["bench"])
    words = ["tasks", "levels=2,1", "--preset", "laptop", "--config", str(file), "samples=4", "turns=5", "more"]
    given = given_by(BenchSettings, command.make_context("bench", words).params)
    settings = given.settings
    assert (settings.samples, settings.turns, settings.seed, settings.device) == (4, 5, 3, "cuda:1")
    assert settings.quick and settings.language == "cpp", "of the preset"
    assert (given.words, settings.levels, set(given.keys)) == (["tasks", "more"], (2, 1), {"samples", "levels", "turns"})


def test_a_setting_that_is_written_as_a_flag_is_told_how_to_write_it() -> None:
    command, _ = command_named(["optimize"])
    with pytest.raises(UsageError, match="--max-tokens is no flag of `bottega optimize` but a setting: write max_tokens=VALUE"):
        command.make_context("optimize", ["model.py", "--max-tokens", "3"])
    with pytest.raises(UsageError, match="there is no setting sampels; did you mean samples"):
        command.make_context("optimize", ["model.py", "sampels=3"])
    given = given_by(OptimizeSettings, command.make_context("optimize", ["model.py", "--init", "64", "inputs=[1]"]).params)
    assert (given.settings.init, given.settings.inputs) == ("64", "[1]"), "texts stay as they are"


def test_settings_are_listed() -> None:
    told = CliRunner().invoke(settings_app, ["data", "build"])
    assert told.exit_code == 0 and "caps.structure" in told.output and "16" in told.output
    rows = json.loads(CliRunner().invoke(settings_app, ["train", "--json"]).output)
    assert {"key", "kind", "default", "doc"} == set(rows[0]) and "data.batch_rows" not in {row["key"] for row in rows}
    assert isinstance(CliRunner().invoke(settings_app, ["judge"]).exception, UsageError)


@pytest.mark.rotates
def test_every_documented_command_line_parses() -> None:
    wrong = []
    for where, line, whole in documented():
        try:
            _parsed(line, whole)
        except Exception as error:
            wrong.append(f"{where}: {line}: {error}")
    assert not wrong, "\n".join(wrong)


def _parsed(line: str, whole: bool) -> None:
    """A whole line without placeholders is parsed; of another the flags and keys must exist."""
    if whole and not PLACEHOLDER.search(line):
        command, words = command_named(shlex.split(line)[1:])
        if "--help" not in words and not hasattr(command, "get_command"):
            context = command.make_context("command", words)
            if command.name in ("sft", "train") and context.params["overrides"]:
                read_config("sft" if command.name == "sft" else "rl", None, None, context.params["overrides"])
        return
    group = line.split()[:2]
    for part in re.split(r"\s\|\s(?!-)", line):  # `bottega skills list | show NAME`
        words = re.sub(r"[\[\]|…]", " ", part).split()
        command, words = command_named((words if words[0] == "bottega" else [*group, *words])[1:])
        flags = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        keys = {one.key for one in settings_of(command.name)} if command.name in COMMANDS else set()
        for word in words[: words.index("--")] if "--" in words else words:  # what follows is another program
            if word.startswith("--"):
                assert word.partition("=")[0] in flags, f"no flag {word}"
            elif re.match(r"[a-z_.]+=", word) and keys:
                assert word.partition("=")[0] in keys, f"no setting {word}"


def _model(command: str) -> Any:
    module, _, name = COMMANDS[command].partition(":")
    return getattr(__import__(module, fromlist=[name]), name)
